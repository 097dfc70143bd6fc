//! ExecSync: a command run in a container, its output and how it ended, within a time.
//!
//! The command runs on a task of its own, so that one whose caller has left or whose time is up
//! is killed with everything it began, whether or not a caller waits.
//! What a command leaves running on purpose after its own end is its container's affair. A child that
//! keeps the output open delays the answer, on engines from 26 by two seconds: they wait that long for
//! the output before they report the exit code.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info, warn};

use super::{
    error::ContainerError,
    exec_output::{CollectedOutput, OutputMemory},
    metrics::ContainerMetrics,
    service::Containers,
};
use crate::{
    concurrency::single_flight::Lost,
    engine::{client::Engine, hijack::Output},
    error::Kind,
    exec::{
        command_records::{AbandonedCommand, CommandRecords},
        error::ExecError,
        follow::follow,
        process::Exec,
    },
    model::{
        exec::{ExecOutcome, ExecSyncSpec},
        record::ContainerRecord,
    },
};

impl Containers {
    /// Runs a command in a container and returns what it printed and how it ended, which may be
    /// badly: that is no error. Output beyond [`MOST_OUTPUT`](super::exec_output::MOST_OUTPUT) bytes is not kept. Dropping the
    /// future kills the command.
    ///
    /// # Errors
    /// The container is unknown or does not run, the engine fails, or the time is up: then the
    /// command has been killed with everything it began. Only the last is a deadline: kubelet takes
    /// that for a probe that failed, and restarts the container. An engine that does not answer, or
    /// has not started the command by then, says nothing about the container.
    pub async fn exec_sync(&self, spec: ExecSyncSpec) -> Result<ExecOutcome, ContainerError> {
        self.run_command(spec).await.map_err(|error| match error {
            ContainerError::TimedOut { .. } => error,
            other if other.kind() == Kind::DeadlineExceeded => {
                ContainerError::EngineTimedOut { cause: Box::new(other) }
            }
            other => other,
        })
    }

    async fn run_command(&self, spec: ExecSyncSpec) -> Result<ExecOutcome, ContainerError> {
        let container = self.running(&spec.container).await?;
        let until = spec.timeout.and_then(|limit| Instant::now().checked_add(limit));
        let limit = spec.timeout.unwrap_or_default();
        let gone = CancellationToken::new();
        let _leaving = gone.clone().drop_guard();
        let id = container.id.as_str().to_owned();
        let (engine, stopping, command_records) =
            (self.engine.clone(), self.leaving.clone(), self.command_records.clone());
        let run = Run { engine, container, spec, until, stopping, command_records };
        let (reply, outcome) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let (begun, reply, metrics) = (Some(begun), Some(reply), self.metrics.clone());
        let caller = Caller { begun, reply, gone, since: Instant::now(), metrics };
        let in_progress = self.metrics.in_progress.clone();
        self.tracker.spawn(
            async move {
                // The command itself may hold secrets.
                let _in_progress = in_progress.begin("exec", run.id());
                run.through(caller).await;
            }
            .in_current_span(),
        );
        let Some(until) = until else { return outcome.await.map_err(|_| Lost)? };
        // An error drops the sender, and is in the answer.
        if timeout_at(until, begins).await.is_err() {
            return Err(late(id, limit));
        }
        outcome.await.map_err(|_| Lost)?
    }

    /// Ends what commands of a killed dockbridge left. The store is synced. One whose container
    /// cannot be inspected holds up no other.
    pub async fn end_left_commands(&self) {
        let left = self.command_records.left().into_iter();
        let ended = left.map(async |one| {
            if self.end_left(&one).await {
                self.command_records.forget(one).await;
            }
        });
        join_all(ended).await;
    }

    /// Ends what is left of one; twice, since the engine may have been about to begin it, then as long
    /// as the engine begins it. Returns whether nothing is left; else its record stays for the next
    /// dockbridge.
    async fn end_left(&self, one: &AbandonedCommand) -> bool {
        if !self.end_processes(one).await {
            return false;
        }
        loop {
            tokio::select! {
                () = sleep(BEGUN_SINCE) => {}
                () = self.leaving.cancelled() => return false,
            }
            if !self.end_processes(one).await {
                return false;
            }
            // Asked after the look for its processes: what began between them is found by the next.
            if !one.goes_on(&self.engine).await {
                return true;
            }
        }
    }

    /// Whether none is left of it.
    async fn end_processes(&self, one: &AbandonedCommand) -> bool {
        let id = one.container();
        // One that cannot be inspected is known from the list.
        let now = self.store.inspected(id).await.unwrap_or_else(|_| self.store.snapshot());
        // One that is gone or does not run took the command along.
        let running = now.container(id).filter(|container| container.process.is_running());
        let Some(container) = running else { return true };
        let ended = one.end(container).await;
        if let Err(error) = &ended {
            warn!(container = id, %error, "cannot kill a command that an earlier dockbridge started; it keeps running");
        }
        ended.is_ok()
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
    command_records: CommandRecords,
}

/// Why a command is ended before its own end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interruption {
    DeadlineExceeded,
    Cancelled,
    Stopping,
}

/// The caller that waits for it.
struct Caller {
    /// Whether the engine has begun it.
    begun: Option<oneshot::Sender<()>>,
    /// Taken by the answer.
    reply: Option<oneshot::Sender<Result<ExecOutcome, ContainerError>>>,
    gone: CancellationToken,
    since: Instant,
    metrics: ContainerMetrics,
}

impl Caller {
    /// Sends the result. It is dropped if the caller has gone.
    fn answer(&mut self, outcome: Result<ExecOutcome, ContainerError>) {
        self.metrics.ran(self.since.elapsed(), outcome.as_ref().err());
        // Nobody waits for the start any more.
        self.begun = None;
        let _ = self.reply.take().map(|reply| reply.send(outcome));
    }
}

impl Run {
    async fn through(self, mut caller: Caller) {
        let command_record =
            self.command_records.record(self.container.id.as_str(), rand::random());
        let command = &self.spec.command;
        let variable = command_record.variable().to_owned();
        let making = Exec::make_marked(&self.engine, &self.container, command, variable).await;
        let exec = match making {
            Ok(exec) => exec,
            Err(error) => return caller.answer(Err(error.into())),
        };
        command_record.write(exec.id()).await;
        // Never abandoned halfway: what the engine may have started must be known to be ended. Started
        // even when the caller has gone: the engine keeps an unstarted exec as long as its container.
        let connection = match exec.start().await {
            Ok(connection) => connection,
            Err(error) => {
                let may_begin_yet = error.may_begin_yet();
                caller.answer(Err(error.into()));
                if !may_begin_yet || self.end_late(&exec).await {
                    command_record.done().await;
                }
                return;
            }
        };
        let _ = caller.begun.take().map(|begun| begun.send(()));
        // Nothing is kept of the connection but `output`: while it is open and not read, the
        // engine cannot deliver the output and does not report the end.
        let (output, _) = connection.split();
        if self.read_and_answer(&exec, output, caller).await {
            command_record.done().await;
        }
    }

    /// Follows the command to its end and answers. Returns whether nothing is left of it that should
    /// not be.
    async fn read_and_answer(&self, exec: &Exec, output: Output, mut caller: Caller) -> bool {
        let gone = caller.gone.clone();
        let mut collecting = Box::pin(collect(exec, output, caller.metrics.output.clone()));
        let end = tokio::select! {
            biased;
            outcome = &mut collecting => return self.ended(exec, outcome, caller).await,
            () = gone.cancelled() => Interruption::Cancelled,
            () = self.time_is_up() => Interruption::DeadlineExceeded,
            () = self.stopped() => Interruption::Stopping,
        };
        if end == Interruption::DeadlineExceeded && !exec.runs().await {
            // The command is over, or the engine has not started it. Only the engine is late.
            let outcome = tokio::select! {
                biased;
                outcome = &mut collecting => return self.ended(exec, outcome, caller).await,
                () = exec.running() => None,
                () = sleep(ENGINE_GRACE) => Some(()),
            };
            caller.answer(Err(late(self.id(), self.limit())));
            drop(collecting);
            return match outcome {
                None => self.end(exec).await.is_none(),
                Some(()) => self.end_late(exec).await,
            };
        }
        drop(collecting);
        let (id, limit) = (self.id(), self.limit());
        let mut ending = pin!(self.end(exec));
        let ended = timeout(KILL_TIMEOUT, &mut ending).await;
        caller.answer(Err(match end {
            Interruption::Cancelled => ContainerError::Abandoned { id },
            Interruption::Stopping => ContainerError::Stopping { id },
            Interruption::DeadlineExceeded => {
                let left =
                    ended.as_ref().map_or_else(|_| Some(Arc::from(BEING_ENDED)), Clone::clone);
                ContainerError::TimedOut { id, limit, left }
            }
        }));
        match ended {
            Ok(left) => left.is_none(),
            Err(_) => ending.await.is_none(),
        }
    }

    /// Answers with the outcome. If that is an error, the command may still run and is killed.
    async fn ended(
        &self,
        exec: &Exec,
        outcome: Result<ExecOutcome, ContainerError>,
        mut caller: Caller,
    ) -> bool {
        let failed = outcome.is_err();
        let begun = !matches!(outcome, Err(ContainerError::Exec(ExecError::NeverBegun { .. })));
        caller.answer(outcome);
        match begun {
            true => !failed || self.end(exec).await.is_none(),
            false => self.end_unbegun(exec).await,
        }
    }

    async fn time_is_up(&self) {
        match self.until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    fn limit(&self) -> Duration {
        self.spec.timeout.unwrap_or_default()
    }

    /// Waits for a command whose start was given up, and ends it if it starts; returns whether it no
    /// longer can.
    async fn end_late(&self, exec: &Exec) -> bool {
        let id = self.container.id.as_str();
        let watched = tokio::select! {
            watched = exec.kill_when_started() => watched,
            // The command may have ended since it was inspected last, up to five seconds ago. If it
            // has not, the next dockbridge finds its record.
            () = self.stopping.cancelled() => {
                match timeout(LAST_LOOK, exec.kill_when_started()).await {
                    Ok(watched) => watched,
                    Err(_) => return false,
                }
            }
        };
        match watched {
            Ok(()) => true,
            Err(error) => {
                warn!(container = id, %error, "a command may have started after its timeout and is not killed yet");
                self.end(exec).await.is_none()
            }
        }
    }

    /// Ends what there may be of a command that the engine says never started; twice, since it may be
    /// starting. Returns whether nothing is left.
    async fn end_unbegun(&self, exec: &Exec) -> bool {
        let id = self.container.id.as_str();
        for pause in [Duration::ZERO, BEGUN_SINCE] {
            tokio::select! {
                () = sleep(pause) => {}
                // The next dockbridge finds its record.
                () = self.stopping.cancelled() => return false,
            }
            if let Err(error) = exec.kill_unbegun().await {
                warn!(container = id, %error, "cannot kill a command that Docker did not report as started");
                return false;
            }
        }
        true
    }

    /// Some time after the stop signal of dockbridge: most commands have ended by then.
    async fn stopped(&self) {
        self.stopping.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    }

    /// Kills it with everything it began; why that did not work, if it did not. What lives on
    /// after a first attempt is tried again for a while: by then the caller has his answer.
    async fn end(&self, exec: &Exec) -> Option<Arc<str>> {
        let id = self.container.id.as_str();
        let until = Instant::now() + PERSISTENCE;
        loop {
            match exec.kill().await {
                Ok(()) => {
                    info!(container = id, "killed a command that timed out or was abandoned");
                    return None;
                }
                Err(error) if error.may_pass() && Instant::now() < until => {
                    warn!(container = id, %error, "cannot kill a command yet; retrying");
                    sleep(KILL_AGAIN).await;
                }
                Err(error) => {
                    warn!(container = id, %error, "cannot kill a command; it keeps running");
                    return Some(Arc::from(format!("and {error}")));
                }
            }
        }
    }

    fn id(&self) -> String {
        self.container.id.as_str().to_owned()
    }
}

/// Reads the output to its end and returns how the command ended.
async fn collect(
    exec: &Exec,
    output: Output,
    memory: OutputMemory,
) -> Result<ExecOutcome, ContainerError> {
    let mut collected = CollectedOutput::new(memory);
    let exit_code = follow(exec, output, &mut collected).await?;
    if collected.dropped > 0 {
        debug!(bytes = collected.dropped, "command output truncated: more than an answer can hold");
    }
    Ok(ExecOutcome { stdout: collected.stdout, stderr: collected.stderr, exit_code })
}

/// The error of a command that the engine has not started, or not reported as finished, in its time.
fn late(id: String, limit: Duration) -> ContainerError {
    let late = ContainerError::TimedOut { id, limit, left: Some(Arc::from(NOT_BEGUN)) };
    ContainerError::EngineTimedOut { cause: Box::new(late) }
}

/// Added to the error if the engine is late, not the command.
const NOT_BEGUN: &str = "and the docker engine has not started it in that time, or not reported its \
                         end; it is killed if it starts later";

/// Added to the error if killing the command takes long.
const BEING_ENDED: &str = "and killing it takes longer";

/// How long a command may run on when dockbridge ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two attempts to kill a command.
const KILL_AGAIN: Duration = Duration::from_millis(100);

/// How long to keep trying to kill a command. A node that cannot kill a process in this time has bigger
/// problems.
const PERSISTENCE: Duration = Duration::from_secs(300);

/// How long the engine may take to start a command whose caller has gone.
const BEGUN_SINCE: Duration = Duration::from_secs(10);

/// How long the last inspect may take when dockbridge ends.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// How long an answer waits for the command to be killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(12);

/// How long the engine may take to report a command that was over when its time was up.
const ENGINE_GRACE: Duration = Duration::from_secs(10);
