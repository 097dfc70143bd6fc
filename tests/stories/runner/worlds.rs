//! A world as a child process that runs tests.

use std::{
    env, fmt,
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use super::{FAILED, PASSED, READY};
use crate::support::failure::{Failure, Outcome};

/// The engine that worlds run, in the words of `tests/env/world.sh`.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    /// `bookworm`, `trixie`, …
    pub(crate) name: String,
    /// The program that the engine gets as its runtime `dockbridge`.
    pub(crate) runtime: Option<PathBuf>,
}

impl Engine {
    /// The variables with which `make test-stories` uses this engine.
    pub(super) fn as_make_variables(&self) -> String {
        let runtime = if self.runtime.is_some() { " RUNTIME=1" } else { "" };
        format!("ENGINE={}{runtime}", self.name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runtime = if self.runtime.is_some() { " and dockbridge-runtime" } else { "" };
        write!(f, "{}{runtime}", self.name)
    }
}

/// A running world. Dropping it ends it.
pub(super) struct WorldProcess {
    child: Child,
    names: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl WorldProcess {
    /// Starts a world and waits until its worker is ready.
    pub(super) fn start(engine: &Engine) -> Outcome<Self> {
        let mut command = Command::new(WORLD);
        command.args(["--engine", &engine.name]);
        if let Some(runtime) = &engine.runtime {
            command.arg("--runtime").arg(runtime);
        }
        command.arg("--").arg(env::current_exe()?).arg("--worker");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let names = child.stdin.take();
        let Some(output) = child.stdout.take() else {
            return Err(Failure("no output of the world".to_owned()));
        };
        let mut world = Self { child, names, output: BufReader::new(output).lines() };
        let mut said = String::new();
        world.until(&mut said, |line| line.starts_with(READY).then_some(()))?;
        Ok(world)
    }

    /// Runs one test: whether it passed, and how long it took.
    pub(super) fn run(&mut self, name: &str, output: &mut String) -> Outcome<(bool, Duration)> {
        if let Some(names) = &mut self.names {
            writeln!(names, "{name}")?;
        }
        self.until(output, |line| {
            let (passed, took) = match line.strip_prefix(PASSED) {
                Some(took) => (true, took),
                None => (false, line.strip_prefix(FAILED)?),
            };
            Some((passed, Duration::from_secs_f32(took.parse().ok()?)))
        })
    }

    /// Collects lines until one is the mark.
    fn until<T>(&mut self, output: &mut String, mark: impl Fn(&str) -> Option<T>) -> Outcome<T> {
        for line in self.output.by_ref() {
            let line = line?;
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
    }
}

const WORLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/env/world.sh");
