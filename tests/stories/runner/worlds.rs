//! A world as a child process that runs tests.

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
    /// `bookworm`, `trixie`, …, or a folder.
    pub(crate) name: String,
    /// The program that the engine gets as its runtime `dockbridge`.
    pub(crate) runtime: Option<PathBuf>,
}

impl Engine {
    /// The variables with which `make test-stories` repeats a test of this run.
    pub(super) fn as_make_variables(&self) -> String {
        let runtime = if self.runtime.is_some() { " RUNTIME=1" } else { "" };
        let size = if is_full_size() { " DOCKBRIDGE_FULL_SIZE=1" } else { "" };
        format!("ENGINE={}{runtime}{size}", self.name)
    }

    /// Where the logs of failed tests on this engine are kept.
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

/// A running world. It ends when this value is dropped.
pub(super) struct WorldProcess {
    child: Child,
    names: Option<ChildStdin>,
    /// The lines of its standard output and standard error.
    output: Split<BufReader<PipeReader>>,
    /// Where its script copies the logs of its programs at the end.
    logs: PathBuf,
    /// Where these logs are kept after that. Otherwise they are deleted.
    kept: Option<PathBuf>,
}

impl WorldProcess {
    /// Starts a world and waits until its worker is ready.
    pub(super) fn start(engine: &Engine) -> Outcome<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let logs = engine.logs().join(format!("world-{number}"));
        let (output, writer) = io::pipe()?;
        // If the runner is killed, its worlds end. The kernel sends the signal when the thread ends that
        // started the world, and no world outlives its thread.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", WORLD, "--engine", &engine.name]);
        if let Some(runtime) = &engine.runtime {
            command.arg("--runtime").arg(runtime);
        }
        command.arg("--").arg(env::current_exe()?).arg("--worker");
        command.env("DOCKBRIDGE_WORLD_LOGS", &logs);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn()?;
        // The pipe ends with the world only if no copy of it is left here.
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

    /// Runs one test: whether it passed, and how long it took.
    pub(super) fn run(&mut self, name: &str, output: &mut String) -> Outcome<(bool, Duration)> {
        if let Some(names) = &mut self.names {
            writeln!(names, "{name}")?;
        }
        self.until(output, |line| {
            // A line of standard error may have been left open.
            let (passed, (_, took)) = match line.split_once(PASSED) {
                Some(parts) => (true, parts),
                None => (false, line.split_once(FAILED)?),
            };
            Some((passed, Duration::from_secs_f32(took.parse().ok()?)))
        })
    }

    /// Ends the world in which this test failed, and returns where the logs of its programs are.
    pub(super) fn end_with_logs(mut self, engine: &Engine, test: &str) -> PathBuf {
        let kept = engine.logs().join(test);
        self.kept = Some(kept.clone());
        kept
    }

    /// Collects lines until one is the mark.
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
        // The end of its input ends the worker, and with it the world.
        self.names = None;
        self.child.wait().ok();
        if let Some(kept) = &self.kept {
            // They may be from an earlier run.
            fs::remove_dir_all(kept).ok();
            fs::rename(&self.logs, kept).ok();
        }
        fs::remove_dir_all(&self.logs).ok();
    }
}

const WORLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/env/world.sh");

const LOGS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/world-logs");
