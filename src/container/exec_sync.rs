//! ExecSync: a command run in a container, its output and how it ended, within a time.
//!
//! The command runs on a task of its own, so that one whose caller has left or whose time is up
//! is killed with everything it began, and nobody need wait for that to be certain it happens.
//! What a command leaves running on purpose after its own end is its container's affair. Such a
//! child that holds the output open delays the answer, on engines from 26 by two seconds: so long
//! the engine waits for the output before it tells how the command itself ended.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    pin,
    sync::oneshot,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info, warn};

use super::{error::ContainerError, room::Containers};
use crate::{
    engine::{client::Engine, error::EngineError, hijack::Output},
    exec::process::Exec,
    flight::call::Lost,
    model::{
        exec::{ExecOutcome, ExecSyncSpec},
        record::ContainerRecord,
        stream::Source,
    },
};

impl Containers {
    /// Runs a command in a container and returns what it printed and how it ended, which may be
    /// badly: that is no error. Output beyond [`MOST_OUTPUT`] bytes is not kept. Dropping the
    /// future kills the command.
    ///
    /// # Errors
    /// The container is unknown or does not run, the engine fails, or the time is up: then the
    /// command has been killed with everything it began.
    pub async fn exec_sync(&self, spec: ExecSyncSpec) -> Result<ExecOutcome, ContainerError> {
        let container = self.running(&spec.container).await?;
        let until = spec.timeout.and_then(|limit| Instant::now().checked_add(limit));
        let gone = CancellationToken::new();
        let _leaving = gone.clone().drop_guard();
        let late = ContainerError::TimedOut {
            id: container.id.as_str().to_owned(),
            limit: spec.timeout.unwrap_or_default(),
            left: Some(Arc::from("and it is still being ended")),
        };
        let (engine, stopping) = (self.engine.clone(), self.leaving.clone());
        let run = Run { engine, container, spec, until, stopping };
        let (answer, outcome) = oneshot::channel();
        let meters = self.meters.clone();
        let run = async move {
            // The command itself may hold secrets.
            let _underway = meters.underway.begin("exec", run.id());
            let begun = Instant::now();
            let outcome = run.through(gone).await;
            meters.ran(begun.elapsed(), outcome.as_ref().err());
            // A caller who has left does not take the answer.
            let _ = answer.send(outcome);
        };
        self.tracker.spawn(run.in_current_span());
        let outcome = match until {
            None => outcome.await,
            Some(until) => {
                let patience = until.checked_add(KILL_PATIENCE).unwrap_or(until);
                timeout_at(patience, outcome).await.map_err(|_| late)?
            }
        };
        outcome.map_err(|_| Lost)?
    }

    /// The record of a container that runs. The store may be a blink behind a start: before a
    /// refusal the engine is asked.
    async fn running(&self, id: &str) -> Result<Arc<ContainerRecord>, ContainerError> {
        let missing = || ContainerError::NotFound { id: id.to_owned() };
        let mut container = self.find(id).await?.ok_or_else(missing)?;
        if !container.process.is_running() {
            self.store.refresh_container(container.id.as_str()).await?;
            container = self.known(id).await?;
        }
        if container.process.is_running() {
            return Ok(container);
        }
        Err(ContainerError::NotRunning { id: container.id.as_str().to_owned() })
    }
}

/// One command to be run.
struct Run {
    engine: Engine,
    container: Arc<ContainerRecord>,
    spec: ExecSyncSpec,
    until: Option<Instant>,
    stopping: CancellationToken,
}

impl Run {
    async fn through(self, gone: CancellationToken) -> Result<ExecOutcome, ContainerError> {
        let marker = format!("{MARKER}={:032x}", rand::random::<u128>());
        // Never given up half way: what the engine may have begun must be known to be ended.
        let beginning =
            Exec::begin_marked(&self.engine, &self.container, &self.spec.command, marker);
        let (exec, connection) = beginning.await?;
        // Nothing is kept of the connection but `output`: while it is open and nobody reads, the
        // engine cannot deliver what the command says and does not call it ended.
        let (output, _) = connection.split();
        let up = async {
            match self.until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = hear_out(&exec, output) => match outcome {
                Err(error) => {
                    self.end(&exec).await;
                    Err(error)
                }
                outcome => outcome,
            },
            () = gone.cancelled() => {
                self.end(&exec).await;
                Err(ContainerError::Abandoned { id: self.id() })
            }
            () = up => {
                let left = self.end(&exec).await;
                let limit = self.spec.timeout.unwrap_or_default();
                Err(ContainerError::TimedOut { id: self.id(), limit, left })
            }
            () = self.stopped() => {
                self.end(&exec).await;
                Err(ContainerError::Stopping { id: self.id() })
            }
        }
    }

    /// A while after dockbridge was told to end: most commands are over by then.
    async fn stopped(&self) {
        self.stopping.cancelled().await;
        sleep(STOP_PATIENCE).await;
    }

    /// Kills it with everything it began; why that did not work, if it did not. What lives on
    /// after a first attempt is tried again for a while: by then the caller has his answer.
    async fn end(&self, exec: &Exec) -> Option<Arc<str>> {
        let id = self.container.id.as_str();
        let until = Instant::now() + PERSISTENCE;
        loop {
            match exec.kill().await {
                Ok(()) => {
                    info!(container = id, "ended a command that was over time, or left alone");
                    return None;
                }
                Err(error) if error.may_pass() && Instant::now() < until => {
                    warn!(container = id, %error, "could not end a command yet, trying again");
                    sleep(USUAL).await;
                }
                Err(error) => {
                    warn!(container = id, %error, "could not end a command");
                    return Some(Arc::from(format!("and {error}")));
                }
            }
        }
    }

    fn id(&self) -> String {
        self.container.id.as_str().to_owned()
    }
}

/// Listens until all output has come, or until the main process has ended and what holds its
/// output open is somebody it left behind; then asks how it ended.
async fn hear_out(exec: &Exec, mut output: Output) -> Result<ExecOutcome, ContainerError> {
    let mut heard = Heard::default();
    {
        let ended = async {
            // Most are over by then, and finding their process would be for nothing.
            sleep(USUAL).await;
            exec.ended().await;
        };
        pin!(ended);
        loop {
            tokio::select! {
                piece = output.next() => match piece {
                    Some(piece) => heard.take(piece?),
                    None => break,
                },
                () = &mut ended => {
                    heard.remainder(&mut output).await?;
                    break;
                }
            }
        }
    }
    drop(output);
    if heard.dropped > 0 {
        debug!(bytes = heard.dropped, "a command printed more than an answer can hold");
    }
    let exit_code = exec.exit_code().await?;
    Ok(ExecOutcome { stdout: heard.stdout, stderr: heard.stderr, exit_code })
}

/// Output as far as it is kept.
#[derive(Debug, Default)]
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    dropped: usize,
}

impl Heard {
    fn take(&mut self, (source, bytes): (Source, Bytes)) {
        let room = MOST_OUTPUT.saturating_sub(self.stdout.len() + self.stderr.len());
        let kept = bytes.len().min(room);
        let into = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        into.extend_from_slice(bytes.get(..kept).unwrap_or_default());
        self.dropped += bytes.len() - kept;
    }

    /// What the main process wrote before it ended is under way still; what others write goes
    /// on and on.
    async fn remainder(&mut self, output: &mut Output) -> Result<(), EngineError> {
        let until = Instant::now() + LONGEST_REMAINDER;
        while Instant::now() < until {
            match timeout(QUIET, output.next()).await {
                Ok(Some(piece)) => self.take(piece?),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Bytes of both outputs kept together: kubelet takes answers of 16 MiB, and the rest of the
/// answer needs a little.
pub const MOST_OUTPUT: usize = 16 * 1024 * 1024 - 64 * 1024;

/// The variable by which processes that left every other trace behind are found.
const MARKER: &str = "DOCKBRIDGE_EXEC";

/// Within this a command that is asked a question has answered.
const USUAL: Duration = Duration::from_millis(100);

/// Silence that long after the end of the main process: all it wrote has come.
const QUIET: Duration = Duration::from_millis(250);

/// A child left behind that writes without a pause is not listened to for longer.
const LONGEST_REMAINDER: Duration = Duration::from_secs(1);

/// How long a command may go on when dockbridge ends.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long a command is tried to be ended, attempt after attempt: a node whose processes cannot
/// be killed for so long has other troubles.
const PERSISTENCE: Duration = Duration::from_secs(300);

/// How long the answer waits beyond the limit for the killing to be done.
const KILL_PATIENCE: Duration = Duration::from_secs(12);
