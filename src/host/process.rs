//! Runs another program to its end, with input, output, a deadline and an output limit.
//!
//! The program has its own process group, which is killed at a deadline, after too much output, if a pipe fails, or
//! when the future is dropped. If the program exits, its background processes continue to run. If a signal ends the
//! program, [`run`] waits up to five seconds for the other processes of the group to end, then kills them.

use std::{
    fmt, io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep, timeout},
};

use super::orphans;
use crate::error::Kind;

/// A program to run.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The program's executable. A name without a path is searched for in `PATH`.
    pub executable: &'a Path,
    pub arguments: &'a [&'a str],
    /// The program gets these variables and dockbridge's own, but none of `SYSTEMD_VARIABLES`.
    pub environment: &'a [(&'static str, &'a str)],
    pub input: &'a [u8],
    pub time_limit: Duration,
    /// How many bytes the program may print to standard output. A program that prints more is killed.
    pub output_limit: usize,
}

impl<'a> Program<'a> {
    /// A program that needs no input and prints at most 1 MiB.
    pub const fn new(executable: &'a Path, arguments: &'a [&'a str], time_limit: Duration) -> Self {
        let output_limit = 1 << 20;
        Self { executable, arguments, environment: &[], input: &[], time_limit, output_limit }
    }
}

/// The result of a program that dockbridge did not kill.
#[derive(Clone, Debug)]
pub struct Finished {
    pub exit: ProcessExit,
    pub stdout: Vec<u8>,
    /// The start of the program's standard error, without control characters.
    pub stderr: String,
}

impl Finished {
    /// The program's standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl ProcessExit {
    fn of(status: ExitStatus) -> Self {
        // After `wait`, an `ExitStatus` has either an exit code or a signal.
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Code)
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// Why a program could not be started, or why dockbridge killed it.
#[derive(Debug, Error)]
pub enum ProcessError {
    #[error("cannot start {}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("{} was still running after {time_limit:?} and was killed", program.display())]
    Deadline { program: PathBuf, time_limit: Duration, stderr: String },
    #[error("{} printed more than {limit} bytes to stdout and was killed", program.display())]
    TooMuch { program: PathBuf, limit: usize },
    #[error("cannot communicate with {}", program.display())]
    Follow { program: PathBuf, source: io::Error },
}

impl ProcessError {
    /// The kind of the error, which determines the gRPC code.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Deadline { .. } => Kind::DeadlineExceeded,
            Self::Start { .. } | Self::TooMuch { .. } | Self::Follow { .. } => Kind::Internal,
        }
    }
}

/// Runs `program` and waits for its end. Dropping the future kills the program.
///
/// # Errors
/// The program could not be started, or dockbridge killed it ([`ProcessError`]).
pub async fn run(program: Program<'_>) -> Result<Finished, ProcessError> {
    let mut group = ProcessGroup::start(&program).await?;
    let mut output = Output::default();
    let end = timeout(program.time_limit, group.communicate(&program, &mut output)).await;
    let path = program.executable.to_owned();
    match end {
        Ok(Ok(status)) => {
            let exit = ProcessExit::of(status);
            Ok(Finished { exit, stdout: output.stdout, stderr: readable(&output.stderr) })
        }
        Ok(Err(Stop::TooMuch)) => {
            Err(ProcessError::TooMuch { program: path, limit: program.output_limit })
        }
        Ok(Err(Stop::Lost(source))) => Err(ProcessError::Follow { program: path, source }),
        Err(_) => {
            let stderr = readable(&output.stderr);
            Err(ProcessError::Deadline { program: path, time_limit: program.time_limit, stderr })
        }
    }
}

#[derive(Default)]
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

enum Stop {
    TooMuch,
    Lost(io::Error),
}

/// The process group of a program. Dropping this value kills the group, unless `communicate` has returned a status.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    child: Child,
    leader: Option<Pid>,
}

impl ProcessGroup {
    /// The process group that `child` leads.
    pub(super) fn of(child: Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        Self { child, leader }
    }

    /// Starts the program. Retries for a second if the binary is being written, and so cannot be executed.
    async fn start(program: &Program<'_>) -> Result<Self, ProcessError> {
        let mut command = Command::new(program.executable);
        command
            .args(program.arguments)
            .envs(program.environment.iter().copied())
            .env(orphans::VARIABLE, orphans::OWN.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for variable in SYSTEMD_VARIABLES {
            command.env_remove(variable);
        }
        let mut tries = 0;
        loop {
            match command.spawn() {
                Ok(child) => return Ok(Self::of(child)),
                Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                    sleep(BUSY_PAUSE).await;
                }
                Err(source) => {
                    return Err(ProcessError::Start {
                        program: program.executable.to_owned(),
                        source,
                    });
                }
            }
            tries += 1;
        }
    }

    async fn communicate(
        &mut self,
        program: &Program<'_>,
        output: &mut Output,
    ) -> Result<ExitStatus, Stop> {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let pipes = async {
            tokio::try_join!(
                write_stdin(stdin, program.input),
                read_output(stdout, &mut output.stdout, program.output_limit),
                read_stderr(stderr, &mut output.stderr),
            )
            .map(|_| ())
        };
        tokio::pin!(pipes);
        let status = tokio::select! {
            done = &mut pipes => { done?; self.child.wait().await }
            status = self.child.wait() => {
                // The program has ended, so its remaining output is in the pipes. Only a process that the program
                // left behind can keep the pipes open.
                if let Ok(done) = timeout(DRAIN_TIMEOUT, &mut pipes).await { done?; }
                status
            }
        };
        let status = status.map_err(Stop::Lost)?;
        if status.signal().is_some() {
            self.until_children_end().await;
        }
        self.leader = None;
        Ok(status)
    }

    /// Waits until the other processes of the group have ended, or kills them after `CHILDREN_TIMEOUT`. If a CNI plugin
    /// is killed, the IPAM plugin that it started still runs, and could allocate an address after the DEL that should
    /// release it.
    async fn until_children_end(&self) {
        let Some(leader) = self.leader else { return };
        let until = Instant::now() + CHILDREN_TIMEOUT;
        // While a process of the group exists, the kernel does not reuse the group's number.
        while killpg(leader, None).is_ok() {
            if Instant::now() > until {
                let _ = killpg(leader, Signal::SIGKILL);
                return;
            }
            sleep(CHILDREN_PAUSE).await;
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            let _ = killpg(leader, Signal::SIGKILL);
        }
    }
}

/// Succeeds even if the program closes its input early.
async fn write_stdin(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), Stop> {
    let Some(mut stdin) = stdin else { return Ok(()) };
    match stdin.write_all(input).await {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Stop::Lost(e)),
        _ => Ok(()),
    }
}

async fn read_output(
    pipe: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    limit: usize,
) -> Result<(), Stop> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    while pipe.read_buf(into).await.map_err(Stop::Lost)? > 0 {
        if into.len() > limit {
            return Err(Stop::TooMuch);
        }
    }
    Ok(())
}

/// Reads standard error to its end, so that the program is not blocked, but keeps only the start.
async fn read_stderr(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> Result<(), Stop> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut piece = Vec::with_capacity(4096);
    while pipe.read_buf(&mut piece).await.map_err(Stop::Lost)? > 0 {
        let room = STDERR_LIMIT.saturating_sub(into.len());
        into.extend(piece.drain(..).take(room));
    }
    Ok(())
}

/// Makes one line of text without control characters.
pub(super) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Variables that systemd sets for dockbridge alone. A program with `NOTIFY_SOCKET` could notify systemd in the name of
/// dockbridge, as timedatectl does when it ends (sd_notify(3), sd_listen_fds(3)).
pub(super) const SYSTEMD_VARIABLES: [&str; 6] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the children of a program that a signal has ended may take to end by themselves.
const CHILDREN_TIMEOUT: Duration = Duration::from_secs(5);
const CHILDREN_PAUSE: Duration = Duration::from_millis(5);
const STDERR_LIMIT: usize = 16 * 1024;

#[cfg(test)]
mod tests;
