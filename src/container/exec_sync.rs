//! ExecSync: runs a command in a container and returns its output and exit code.
//!
//! Each command runs in its own task, which kills the command and its child processes if the caller disconnects or the
//! timeout expires. A process that an ended command leaves behind is not killed, but if this process keeps the output
//! open, Docker 26 and newer report the command's end two seconds late.

use std::{
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, debug};

use super::{exec_output::CollectedOutput, metrics::ContainerMetrics, node::Node};
use crate::{
    concurrency::{freezes::Freezes, single_flight::Lost},
    engine::{client::Engine, exec::ExecRequest, hijack::Output},
    error::{Failure, Kind},
    exec::{
        command_records::{AbandonedCommand, CommandRecords},
        error::ExecError,
        follow::follow,
        leftovers::Leftover,
        process::Exec,
    },
    model::{
        record::ContainerRecord,
        stream::{ExecOutcome, ExecSyncSpec, Streams},
    },
    store::settings::SYNC_TIMEOUT,
};

/// Runs the commands of ExecSync. All clones of `Commands` share their state.
#[derive(Clone, Debug)]
pub struct Commands {
    node: Arc<Node>,
    /// Owns the tasks of commands, so that dockbridge waits for their end before it exits.
    tracker: TaskTracker,
    shutdown: CancellationToken,
    /// Records which commands run, for the next dockbridge process.
    command_records: CommandRecords,
    pub metrics: ContainerMetrics,
}

impl Commands {
    /// Stores the records of commands below `state_dir`. Kills commands soon after the token in `work` is cancelled.
    pub fn new(
        node: &Arc<Node>,
        state_dir: &Path,
        work: (&TaskTracker, &CancellationToken),
    ) -> Self {
        Self {
            node: node.clone(),
            tracker: work.0.clone(),
            shutdown: work.1.clone(),
            command_records: CommandRecords::open(state_dir.join("execs")),
            metrics: ContainerMetrics::default(),
        }
    }

    /// Runs a command in a container and returns its output and exit code. A non-zero exit code is not an error. Keeps
    /// at most [`MOST_OUTPUT`](super::exec_output::MOST_OUTPUT) bytes of output. Dropping the future kills the command.
    ///
    /// # Errors
    /// The container is unknown or does not run, the engine fails, dockbridge stops or has no memory for the
    /// output, or the timeout has expired. Only a command that runs too long gets `DeadlineExceeded`: kubelet counts
    /// that as a failed probe and may restart the container, which a slow engine must not cause.
    pub async fn exec_sync(&self, spec: ExecSyncSpec) -> Result<ExecOutcome, Failure> {
        let store = &self.node.store;
        let now = store.synced(SYNC_TIMEOUT).await.map_err(not_the_commands)?;
        let container = store.running(&now, &spec.container).await.map_err(not_the_commands)?;
        let deadline = Deadline::new(spec.timeout, &self.node.engine, container.id.as_str());
        let limit = spec.timeout.unwrap_or_default();
        let gone = CancellationToken::new();
        let _leaving = gone.clone().drop_guard();
        let id = container.id.as_str().to_owned();
        let run = Run { commands: self.clone(), container, spec, deadline: deadline.clone() };
        let (reply, outcome) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let (begun, reply, metrics) = (Some(begun), Some(reply), self.metrics.clone());
        let caller = Caller { begun, reply, gone, since: Instant::now(), metrics };
        self.tracker.spawn(
            async move {
                // `in_progress` shows the container's id and not the command, which may contain secrets.
                let _in_progress = run.commands.metrics.in_progress.begin("exec", run.id());
                run.through(caller).await;
            }
            .in_current_span(),
        );
        tokio::select! {
            biased;
            // If the start fails, the sender of `begins` is dropped, and `outcome` has the error.
            _ = begins => outcome.await.map_err(|_| Lost)?,
            () = deadline.expired() => Err(late(&id, limit)),
        }
    }

    /// Ends commands that an earlier dockbridge process has left running. Must be called after the store was synced.
    /// Handles all commands at the same time, so that one container cannot delay the commands of others.
    pub async fn end_left_commands(&self) {
        let left = self.command_records.left().into_iter();
        let ended = left.map(async |one| {
            if self.end_left(&one).await {
                one.record.done().await;
            }
        });
        join_all(ended).await;
    }

    /// Ends one command. Returns whether it has ended; if not, the next start of dockbridge tries again.
    async fn end_left(&self, one: &AbandonedCommand) -> bool {
        let id = &one.record.container;
        let now =
            self.node.store.inspected(id).await.unwrap_or_else(|_| self.node.store.snapshot());
        // If the container does not exist or does not run, the command has also ended.
        let running = now.container(id).filter(|container| container.process.is_running());
        let Some(container) = running else { return true };
        let exec = one.exec(&self.node.engine, container);
        let cleared = exec.clear(Leftover::Uncertain, &self.shutdown).await;
        // The end of the container also ends commands whose processes dockbridge did not find.
        cleared.unwrap_or_default() || !self.node.store.snapshot().runs(id)
    }
}

/// When the timeout of a command expires. The time in which a container checkpoint froze the container does not count.
#[derive(Clone)]
struct Deadline {
    until: Option<Instant>,
    freezes: Freezes,
    container: String,
    frozen_before: Duration,
}

impl Deadline {
    fn new(timeout: Option<Duration>, engine: &Engine, container: &str) -> Self {
        let until = timeout.and_then(|limit| Instant::now().checked_add(limit));
        let freezes = engine.freezes().clone();
        let frozen_before = freezes.frozen_time(container);
        Self { until, freezes, container: container.to_owned(), frozen_before }
    }

    /// How long container checkpoints have frozen the container since the call began.
    fn frozen(&self) -> Duration {
        self.freezes.frozen_time(&self.container).saturating_sub(self.frozen_before)
    }

    async fn expired(&self) {
        let Some(until) = self.until else { return std::future::pending().await };
        let latest = || until.checked_add(self.frozen()).unwrap_or(until);
        // While the container is frozen, `latest` returns later and later times.
        while Instant::now() < latest() {
            sleep_until(latest()).await;
        }
    }
}

struct Run {
    commands: Commands,
    container: Arc<ContainerRecord>,
    spec: ExecSyncSpec,
    deadline: Deadline,
}

enum CommandEnd {
    /// The engine reported the end of the command, or following the command failed.
    Reported(Result<ExecOutcome, ExecError>),
    /// The engine has not reported the command's end in time, or has not started the command in time.
    Unreported(Leftover),
    Killed(Interruption),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Interruption {
    DeadlineExceeded,
    NoMemory,
    Cancelled,
    Stopping,
}

struct Caller {
    /// Signals that the engine has started the command.
    begun: Option<oneshot::Sender<()>>,
    reply: Option<oneshot::Sender<Result<ExecOutcome, Failure>>>,
    gone: CancellationToken,
    since: Instant,
    metrics: ContainerMetrics,
}

impl Caller {
    fn answer(&mut self, outcome: Result<ExecOutcome, Failure>) {
        self.metrics.ran(self.since.elapsed(), outcome.as_ref().err());
        self.begun = None;
        let _ = self.reply.take().map(|reply| reply.send(outcome));
    }
}

impl Run {
    async fn through(self, mut caller: Caller) {
        let command_record =
            self.commands.command_records.record(self.container.id.as_str(), rand::random());
        let env = [command_record.variable.clone()];
        let streams = Streams { stdout: true, stderr: true, ..Streams::default() };
        let command = &self.spec.command;
        let request = ExecRequest { command, streams, env: &env, size: None };
        let exec = match Exec::make(&self.commands.node.engine, &self.container, &request).await {
            Ok(exec) => exec,
            Err(error) => return caller.answer(Err(not_the_commands(error))),
        };
        command_record.write(exec.id()).await;
        // A disconnect or the command's timeout does not interrupt the start: dockbridge must know whether everything
        // that it started has ended. Without a start, the engine would keep the exec as long as the container runs.
        let is_clear = match exec.start().await {
            Ok((output, input)) => {
                let _ = caller.begun.take().map(|begun| begun.send(()));
                // dockbridge closes the input and immediately reads the output: if nobody read the open connection,
                // the engine could not deliver the output and would not report the end.
                drop(input);
                self.read_and_answer(&exec, output, caller).await
            }
            Err(error) => {
                let left = error.after_start();
                caller.answer(Err(not_the_commands(error)));
                exec.clear(left, &self.commands.shutdown).await
            }
        };
        if is_clear.unwrap_or_default()
            || !self.commands.node.store.snapshot().runs(self.container.id.as_str())
        {
            command_record.done().await;
        }
    }

    /// Follows the command to its end or interruption, and answers the caller. Returns whether no process is left
    /// that dockbridge has to end.
    async fn read_and_answer(
        &self,
        exec: &Exec,
        output: Output,
        mut caller: Caller,
    ) -> Result<bool, ExecError> {
        let id = self.id();
        let (answer, left) = match self.end(exec, output, &caller).await {
            CommandEnd::Reported(Ok(outcome)) => (Ok(outcome), Leftover::Nothing),
            CommandEnd::Reported(Err(error)) => {
                let left = error.after_end();
                (Err(not_the_commands(error)), left)
            }
            CommandEnd::Unreported(left) => (Err(late(&id, self.limit())), left),
            CommandEnd::Killed(reason) => {
                let mut clearing = pin!(exec.clear(Leftover::Running, &self.commands.shutdown));
                let cleared = timeout(KILL_TIMEOUT, &mut clearing).await;
                let limit = self.limit().as_secs();
                let (kind, text) = match reason {
                    Interruption::Cancelled => (
                        Kind::Cancelled,
                        format!("the caller of the command in container {id} has disconnected"),
                    ),
                    Interruption::Stopping => (
                        Kind::Unavailable,
                        format!(
                            "dockbridge kills the command in container {id}, because dockbridge is shutting down"
                        ),
                    ),
                    Interruption::NoMemory => (
                        Kind::Unavailable,
                        format!(
                            "the command in container {id} timed out after {limit}s while its output waited \
                             for memory that the output of other commands uses; dockbridge kills the command"
                        ),
                    ),
                    Interruption::DeadlineExceeded => {
                        let left = match &cleared {
                            Ok(Ok(_)) => String::new(),
                            Ok(Err(error)) => format!(" and {error}"),
                            Err(_) => " and the kill has not finished".to_owned(),
                        };
                        let text =
                            format!("command in container {id} timed out after {limit}s{left}");
                        (Kind::DeadlineExceeded, text)
                    }
                };
                caller.answer(Err(Failure::new(kind, text)));
                return match cleared {
                    Ok(cleared) => cleared,
                    Err(_) => clearing.await,
                };
            }
        };
        caller.answer(answer);
        exec.clear(left, &self.commands.shutdown).await
    }

    async fn end(&self, exec: &Exec, output: Output, caller: &Caller) -> CommandEnd {
        let waits = Arc::<AtomicBool>::default();
        let collected = CollectedOutput::new(caller.metrics.output.clone(), Arc::clone(&waits));
        let mut collecting = Box::pin(collect(exec, output, collected));
        let reason = tokio::select! {
            biased;
            outcome = &mut collecting => return CommandEnd::Reported(outcome),
            () = caller.gone.cancelled() => Interruption::Cancelled,
            () = self.timed_out(exec) => match waits.load(Ordering::Relaxed) {
                true => Interruption::NoMemory,
                false => Interruption::DeadlineExceeded,
            },
            () = self.stopped() => Interruption::Stopping,
        };
        if reason != Interruption::DeadlineExceeded || exec.runs().await {
            return CommandEnd::Killed(reason);
        }
        // The engine is late: it has not reported the command's end yet, or has not started the command yet.
        tokio::select! {
            biased;
            outcome = &mut collecting => CommandEnd::Reported(outcome),
            () = exec.running() => CommandEnd::Unreported(Leftover::Running),
            () = sleep(ENGINE_GRACE) => CommandEnd::Unreported(Leftover::MayStart),
        }
    }

    /// Resolves when the command has run for its whole timeout, or when the timeout is over and dockbridge finds no
    /// process of the command. The time in which the engine started the command does not count: kubelet would take a
    /// slow engine for a failed probe.
    async fn timed_out(&self, exec: &Exec) {
        let before = self.deadline.frozen();
        self.deadline.expired().await;
        // If the command was started at the last moment, dockbridge might not have found it yet.
        let _ = timeout(FIND_TIMEOUT, exec.running()).await;
        let left = || {
            let frozen = self.deadline.frozen().saturating_sub(before);
            self.limit().saturating_add(frozen).checked_sub(exec.age()?)
        };
        while let Some(left) = left().filter(|left| !left.is_zero()) {
            sleep(left).await;
        }
    }

    fn limit(&self) -> Duration {
        self.spec.timeout.unwrap_or_default()
    }

    /// Resolves [`STOP_TIMEOUT`] after dockbridge begins to stop. Within this time, most commands end by themselves.
    async fn stopped(&self) {
        self.commands.shutdown.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    }

    fn id(&self) -> String {
        self.container.id.as_str().to_owned()
    }
}

async fn collect(
    exec: &Exec,
    output: Output,
    mut collected: CollectedOutput,
) -> Result<ExecOutcome, ExecError> {
    let exit_code = follow(exec, output, &mut collected).await?;
    if collected.dropped > 0 {
        debug!(
            bytes = collected.dropped,
            "dropped output of a command beyond the size limit of an ExecSync answer"
        );
    }
    Ok(ExecOutcome { stdout: collected.stdout, stderr: collected.stderr, exit_code })
}

/// The error if the engine has not reported the command's start or end in time.
fn late(id: &str, limit: Duration) -> Failure {
    let text = format!(
        "command in container {id} timed out after {}s: the docker engine has not started the command in \
         that time, or has not reported the command's end; dockbridge kills the command if it starts later",
        limit.as_secs()
    );
    Failure::new(Kind::Unavailable, text)
}

/// Replaces the kind `DeadlineExceeded`, which kubelet would mistake for a timeout of the command.
fn not_the_commands(error: impl Into<Failure>) -> Failure {
    let failure = error.into();
    match failure.kind() {
        Kind::DeadlineExceeded => Failure::new(Kind::Unavailable, failure.to_string()),
        _ => failure,
    }
}

const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the answer to the caller waits, at most, while dockbridge kills the command.
const KILL_TIMEOUT: Duration = Duration::from_secs(12);

/// How long dockbridge searches for a command's process at the end of the timeout.
const FIND_TIMEOUT: Duration = Duration::from_millis(250);

/// How long dockbridge waits, after the timeout, until the engine reports the end of a command that ended in time, or
/// starts the command.
const ENGINE_GRACE: Duration = Duration::from_secs(10);
