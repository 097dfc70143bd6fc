//! Running one foreign program to its end: fed, listened to, bounded and never left behind.
//!
//! The program leads a process group of its own. Whatever ends the call early (the deadline, too
//! much output, a dropped future) kills the whole group. Once the program itself has ended, a
//! background process it may have left is not touched, and is not waited for either.

use std::{
    fmt, io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    time::{sleep, timeout},
};

use crate::error::Kind;

/// A program to run.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The executable; a bare name is looked for in `PATH`.
    pub program: &'a Path,
    /// What it is called with.
    pub arguments: &'a [&'a str],
    /// Variables set over those inherited from us.
    pub environment: &'a [(&'static str, &'a str)],
    /// What it reads from its standard input, to the end.
    pub input: &'a [u8],
    /// How long it may take.
    pub patience: Duration,
    /// How many bytes it may print; one more and it is killed.
    pub output_limit: usize,
}

/// A program that ended by itself.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// The beginning of what it printed as errors, made readable.
    pub stderr: String,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with a code; 0 is success.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ending {
    fn of(status: ExitStatus) -> Self {
        // One of the two is always there.
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Code)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// A program that did not get to its own end.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The executable.
        program: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// It was killed for taking too long.
    #[error("{} was still running after {patience:?} and was killed", program.display())]
    Deadline {
        /// The executable.
        program: PathBuf,
        /// How long it had.
        patience: Duration,
        /// What it had printed as errors until then.
        stderr: String,
    },
    /// It was killed for printing too much.
    #[error("{} printed more than {limit} bytes and was killed", program.display())]
    TooMuch {
        /// The executable.
        program: PathBuf,
        /// How much it may print.
        limit: usize,
    },
    /// Its end could not be observed.
    #[error("cannot follow {}", program.display())]
    Follow {
        /// The executable.
        program: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl ProcessError {
    /// Only time is something a caller can act on.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Deadline { .. } => Kind::DeadlineExceeded,
            Self::Start { .. } | Self::TooMuch { .. } | Self::Follow { .. } => Kind::Internal,
        }
    }
}

/// Runs `job` and waits for its end. Dropping the future kills it.
///
/// # Errors
/// It could not be started, or was killed: see [`ProcessError`]. A failing exit is no error here.
pub async fn run(job: Job<'_>) -> Result<Finished, ProcessError> {
    let mut group = Group::start(&job).await?;
    let mut heard = Heard::default();
    let end = timeout(job.patience, group.converse(&job, &mut heard)).await;
    let program = job.program.to_owned();
    match end {
        Ok(Ok(status)) => {
            let ending = Ending::of(status);
            Ok(Finished { ending, stdout: heard.stdout, stderr: readable(&heard.stderr) })
        }
        Ok(Err(Stop::TooMuch)) => Err(ProcessError::TooMuch { program, limit: job.output_limit }),
        Ok(Err(Stop::Lost(source))) => Err(ProcessError::Follow { program, source }),
        Err(_) => {
            let stderr = readable(&heard.stderr);
            Err(ProcessError::Deadline { program, patience: job.patience, stderr })
        }
    }
}

#[derive(Default)]
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

enum Stop {
    TooMuch,
    Lost(io::Error),
}

/// A running program with everything it starts, killed when dropped unless it ended.
struct Group {
    child: Child,
    leader: Option<Pid>,
}

impl Group {
    /// A binary that is just being replaced cannot be executed for a moment; that is waited out.
    async fn start(job: &Job<'_>) -> Result<Self, ProcessError> {
        let mut command = Command::new(job.program);
        command
            .args(job.arguments)
            .envs(job.environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut tries = 0;
        loop {
            match command.spawn() {
                Ok(child) => {
                    let leader =
                        child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
                    return Ok(Self { child, leader });
                }
                Err(e) if is_busy(&e) && tries < BUSY_TRIES => sleep(BUSY_PAUSE).await,
                Err(source) => {
                    return Err(ProcessError::Start { program: job.program.to_owned(), source });
                }
            }
            tries += 1;
        }
    }

    async fn converse(&mut self, job: &Job<'_>, heard: &mut Heard) -> Result<ExitStatus, Stop> {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let pipes = async {
            tokio::try_join!(
                feed(stdin, job.input),
                hear(stdout, &mut heard.stdout, job.output_limit),
                note(stderr, &mut heard.stderr),
            )
            .map(|_| ())
        };
        tokio::pin!(pipes);
        let status = tokio::select! {
            done = &mut pipes => { done?; self.child.wait().await }
            status = self.child.wait() => {
                // All it printed is in the pipes by now; only a process it left behind can
                // keep them open.
                if let Ok(done) = timeout(LEFTOVERS, &mut pipes).await { done?; }
                status
            }
        };
        let status = status.map_err(Stop::Lost)?;
        self.leader = None;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // It may have ended in this very moment.
            let _ = killpg(leader, Signal::SIGKILL);
        }
    }
}

/// A program that does not care for its input closes it early; that is its right.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), Stop> {
    let Some(mut stdin) = stdin else { return Ok(()) };
    match stdin.write_all(input).await {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Stop::Lost(e)),
        _ => Ok(()),
    }
}

async fn hear(
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

/// Keeps the beginning and lets the rest go by, so that a talkative program is not blocked.
async fn note(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> Result<(), Stop> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut piece = Vec::with_capacity(4096);
    while pipe.read_buf(&mut piece).await.map_err(Stop::Lost)? > 0 {
        let room = NOTES_LIMIT.saturating_sub(into.len());
        into.extend(piece.drain(..).take(room));
    }
    Ok(())
}

/// One line of text without control characters.
pub(super) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ETXTBSY as i32)
}

const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);
const LEFTOVERS: Duration = Duration::from_secs(1);
const NOTES_LIMIT: usize = 16 * 1024;

#[cfg(test)]
mod tests;
