//! Starts a world as a child process, and runs tests in the world.

use std::{
    env, fmt, fs,
    io::{self, BufRead as _, BufReader, PipeReader, Split, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::{FAILED, PASSED, READY, file_name::file_name};
use crate::support::{
    failure::{Failure, Outcome},
    stated::is_full_size,
};

/// The engine of the worlds, as `tests/env/world.sh` names it.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    /// The value of `world.sh --engine`: a name such as `trixie`, or the directory of the engine's programs.
    pub(crate) name: String,
    /// The program that the engine gets as its runtime `dockbridge`.
    pub(crate) runtime: Option<PathBuf>,
}

impl Engine {
    /// The variables of `make test-stories`, except `STORY`, to repeat a test of this run.
    pub(super) fn as_make_variables(&self) -> String {
        let runtime = if self.runtime.is_some() { " RUNTIME=1" } else { "" };
        let size = if is_full_size() { " DOCKBRIDGE_FULL_SIZE=1" } else { "" };
        format!("ENGINE={}{runtime}{size}", self.name)
    }

    /// The directory in which the logs of failed tests on this engine are kept.
    pub(super) fn logs(&self) -> PathBuf {
        let runtime = if self.runtime.is_some() { "-runtime" } else { "" };
        Path::new(LOGS).join(format!("{}{runtime}", file_name(&self.name)))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runtime = if self.runtime.is_some() { " and dockbridge-runtime" } else { "" };
        write!(f, "{}{runtime}", self.name)
    }
}

/// A running world, which ends when this value is dropped.
pub(super) struct WorldProcess {
    child: Child,
    names: Option<ChildStdin>,
    /// The lines of the world's standard output and standard error.
    output: Split<BufReader<PipeReader>>,
    /// The directory to which `world.sh` copies the logs of the world's programs at the end.
    logs: PathBuf,
    /// The directory to which the logs are moved at the end, or `None` if they are deleted.
    kept: Option<PathBuf>,
}

impl WorldProcess {
    /// Starts a world and waits until its worker is ready.
    pub(super) fn start(engine: &Engine) -> Outcome<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let logs = engine.logs().join(format!("world-{number}"));
        let (output, writer) = io::pipe()?;
        // With `setpriv --pdeathsig`, a world ends if the runner is killed. The kernel also sends this signal when only
        // the thread that started the world ends, but each thread ends its world before that.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", WORLD, "--engine", &engine.name]);
        if let Some(runtime) = &engine.runtime {
            command.arg("--runtime").arg(runtime);
        }
        command.arg("--").arg(env::current_exe()?).arg("--worker");
        command.env("DOCKBRIDGE_WORLD_LOGS", &logs);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn()?;
        // The pipe ends with the world only if the runner has no copy of the pipe's writing end.
        drop(command);
        let names = child.stdin.take();
        let output = BufReader::new(output).split(b'\n');
        let mut world = Self { child, names, output, logs, kept: None };
        let mut said = String::new();
        world
            .until(&mut said, |line| line.contains(READY).then_some(()))
            .map_err(|Failure(why)| Failure(said + &why))?;
        Ok(world)
    }

    /// Runs one test, and returns whether it passed, and how long it took.
    pub(super) fn run(&mut self, name: &str, output: &mut String) -> Outcome<(bool, Duration)> {
        if let Some(names) = &mut self.names {
            writeln!(names, "{name}")?;
        }
        self.until(output, |line| {
            // The line may begin with a part of standard error that has no line break.
            let (passed, (_, took)) = match line.split_once(PASSED) {
                Some(parts) => (true, parts),
                None => (false, line.split_once(FAILED)?),
            };
            Some((passed, Duration::from_secs_f32(took.parse().ok()?)))
        })
    }

    /// Ends the world in which this test failed, and returns the directory with the logs of the world's programs.
    pub(super) fn end_with_logs(mut self, engine: &Engine, test: &str) -> PathBuf {
        let kept = engine.logs().join(test);
        self.kept = Some(kept.clone());
        kept
    }

    /// Collects lines of output until `mark` recognises a line, and returns what `mark` read in it.
    fn until<T>(&mut self, output: &mut String, mark: impl Fn(&str) -> Option<T>) -> Outcome<T> {
        for line in self.output.by_ref() {
            let line = String::from_utf8_lossy(&line?).into_owned();
            if let Some(found) = mark(&line) {
                return Ok(found);
            }
            *output += &line;
            output.push('\n');
        }
        let status = self.child.wait()?;
        Err(Failure(format!("{WORLD} ended with {status}")))
    }
}

impl Drop for WorldProcess {
    fn drop(&mut self) {
        // The worker ends when its input ends, and then the world ends.
        self.names = None;
        self.child.wait().ok();
        if let Some(kept) = &self.kept {
            // Logs of an earlier run may be in this directory.
            fs::remove_dir_all(kept).ok();
            fs::rename(&self.logs, kept).ok();
        }
        fs::remove_dir_all(&self.logs).ok();
    }
}

const WORLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/env/world.sh");

const LOGS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/world-logs");
