//! ExecSync: runs a command in a container and returns its output and exit code, within a timeout.
//!
//! The command runs in its own task, so that it is killed with all its child processes if its caller has
//! disconnected or its timeout has expired. Processes that a command intentionally leaves after its own end
//! are not killed. A child that keeps the output open delays the answer. Engines from 26 on wait two
//! seconds for the output before they report the exit code.

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
    concurrency::{single_flight::Lost, standstills::Standstills},
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

/// The commands of ExecSync. Clones share everything.
#[derive(Clone, Debug)]
pub struct Commands {
    node: Arc<Node>,
    /// Owns the commands, so that dockbridge waits for their end before it exits.
    tracker: TaskTracker,
    /// Cancelled when dockbridge stops. Commands are then ended.
    shutdown: CancellationToken,
    /// Records which commands run, for the next server.
    command_records: CommandRecords,
    pub metrics: ContainerMetrics,
}

impl Commands {
    /// Records of commands are stored below `state_dir`. Commands end soon after the token is cancelled.
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

    /// Runs a command in a container and returns its output and exit code. A non-zero exit code is not an
    /// error. Output after [`MOST_OUTPUT`](super::exec_output::MOST_OUTPUT) bytes is not kept. Dropping the
    /// future kills the command.
    ///
    /// # Errors
    /// The container is unknown or does not run, the engine fails, or the timeout has expired. In the last
    /// case the command was killed with its child processes. Only this case is a deadline error: kubelet
    /// counts it as a failed probe and restarts the container. An engine that does not answer, or has not
    /// started the command in time, must not cause a restart.
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
                // The command itself may contain secrets.
                let _in_progress = run.commands.metrics.in_progress.begin("exec", run.id());
                run.through(caller).await;
            }
            .in_current_span(),
        );
        tokio::select! {
            biased;
            // An error drops the sender. The answer has the error.
            _ = begins => outcome.await.map_err(|_| Lost)?,
            () = deadline.expired() => Err(late(&id, limit)),
        }
    }

    /// Ends commands that a killed dockbridge left. The store must be synced. If a container cannot be
    /// inspected, its commands do not delay those of others.
    pub async fn end_left_commands(&self) {
        let left = self.command_records.left().into_iter();
        let ended = left.map(async |one| {
            if self.end_left(&one).await {
                one.record.done().await;
            }
        });
        join_all(ended).await;
    }

    /// Returns whether the command has ended. Otherwise its record stays for the next start of dockbridge.
    async fn end_left(&self, one: &AbandonedCommand) -> bool {
        let id = &one.record.container;
        // If the container cannot be inspected, its state from the list is used.
        let now =
            self.node.store.inspected(id).await.unwrap_or_else(|_| self.node.store.snapshot());
        // If the container is gone or does not run, the command has ended with it.
        let running = now.container(id).filter(|container| container.process.is_running());
        let Some(container) = running else { return true };
        let exec = one.exec(&self.node.engine, container);
        let cleared = exec.clear(Leftover::Uncertain, &self.shutdown).await;
        cleared.unwrap_or_default() || has_ended(&self.node, id)
    }
}

/// Whether the container has ended, and all its commands with it. This is also known if a search for a command
/// was given up.
fn has_ended(node: &Node, container: &str) -> bool {
    !node.store.snapshot().container(container).is_some_and(|now| now.process.is_running())
}

/// When the timeout of a command expires. The time in which its container was frozen does not count: the
/// command could do nothing.
#[derive(Clone)]
struct Deadline {
    until: Option<Instant>,
    standstills: Standstills,
    container: String,
    lost_before: Duration,
}

impl Deadline {
    fn new(timeout: Option<Duration>, engine: &Engine, container: &str) -> Self {
        let until = timeout.and_then(|limit| Instant::now().checked_add(limit));
        let standstills = engine.standstills().clone();
        let lost_before = standstills.lost(container);
        Self { until, standstills, container: container.to_owned(), lost_before }
    }

    async fn expired(&self) {
        let Some(until) = self.until else { return std::future::pending().await };
        let latest = || {
            let lost = self.standstills.lost(&self.container);
            until.checked_add(lost.saturating_sub(self.lost_before)).unwrap_or(until)
        };
        // During a standstill, this time moves.
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

/// How a command ended for its caller.
enum CommandEnd {
    /// The engine reported the end, or failed to.
    Reported(Result<ExecOutcome, ExecError>),
    /// The engine has not reported the end in time, or has not started the command in time.
    Unreported(Leftover),
    Killed(Interruption),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Interruption {
    DeadlineExceeded,
    /// The output of other commands uses all the memory.
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
    /// Sends the result. It is dropped if the caller has disconnected.
    fn answer(&mut self, outcome: Result<ExecOutcome, Failure>) {
        self.metrics.ran(self.since.elapsed(), outcome.as_ref().err());
        // Nobody waits for the start any more.
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
        // This is never interrupted, because everything that the engine may have started must be known to
        // have ended. The exec is started even if the caller has disconnected, because the engine keeps an
        // unstarted exec as long as its container.
        let is_clear = match exec.start().await {
            Ok((output, input)) => {
                let _ = caller.begun.take().map(|begun| begun.send(()));
                // Only the output half of the connection is kept, and it is read. If it were open and not
                // read, the engine could not deliver the output and would not report the end.
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
            || has_ended(&self.commands.node, self.container.id.as_str())
        {
            command_record.done().await;
        }
    }

    /// Waits for the command's end and answers. Returns whether no process is left that should have ended.
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
                            "the command in container {id} was killed: dockbridge is shutting down"
                        ),
                    ),
                    Interruption::NoMemory => (
                        Kind::Unavailable,
                        format!(
                            "command in container {id} was killed after {limit}s: other commands used all \
                             memory for the output of commands"
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

    /// Reads the output until the end is known. The connection is then closed.
    async fn end(&self, exec: &Exec, output: Output, caller: &Caller) -> CommandEnd {
        let waits = Arc::<AtomicBool>::default();
        let collected = CollectedOutput::new(caller.metrics.output.clone(), Arc::clone(&waits));
        let mut collecting = Box::pin(collect(exec, output, collected));
        let reason = tokio::select! {
            biased;
            outcome = &mut collecting => return CommandEnd::Reported(outcome),
            () = caller.gone.cancelled() => Interruption::Cancelled,
            () = self.deadline.expired() => match waits.load(Ordering::Relaxed) {
                true => Interruption::NoMemory,
                false => Interruption::DeadlineExceeded,
            },
            () = self.stopped() => Interruption::Stopping,
        };
        if reason != Interruption::DeadlineExceeded || exec.runs().await {
            return CommandEnd::Killed(reason);
        }
        // The command has ended, or the engine has not started it. Only the engine is late.
        tokio::select! {
            biased;
            outcome = &mut collecting => CommandEnd::Reported(outcome),
            () = exec.running() => CommandEnd::Unreported(Leftover::Running),
            () = sleep(ENGINE_GRACE) => CommandEnd::Unreported(Leftover::MayStart),
        }
    }

    fn limit(&self) -> Duration {
        self.spec.timeout.unwrap_or_default()
    }

    /// Resolves some time after dockbridge begins to stop. Most commands have ended by then.
    async fn stopped(&self) {
        self.commands.shutdown.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    }

    fn id(&self) -> String {
        self.container.id.as_str().to_owned()
    }
}

/// Reads the whole output and returns the result of the command.
async fn collect(
    exec: &Exec,
    output: Output,
    mut collected: CollectedOutput,
) -> Result<ExecOutcome, ExecError> {
    let exit_code = follow(exec, output, &mut collected).await?;
    if collected.dropped > 0 {
        debug!(bytes = collected.dropped, "the output of a command was cut to the largest answer");
    }
    Ok(ExecOutcome { stdout: collected.stdout, stderr: collected.stderr, exit_code })
}

/// The error if the engine has not started the command, or has not reported its end, in time.
fn late(id: &str, limit: Duration) -> Failure {
    let text = format!(
        "command in container {id} timed out after {}s: the docker engine has not started the command in \
         that time, or has not reported its end; the command is killed if it starts later",
        limit.as_secs()
    );
    Failure::new(Kind::Unavailable, text)
}

/// The engine took too long, not the command.
fn not_the_commands(error: impl Into<Failure>) -> Failure {
    let failure = error.into();
    match failure.kind() {
        Kind::DeadlineExceeded => Failure::new(Kind::Unavailable, failure.to_string()),
        _ => failure,
    }
}

/// How long a command may continue when dockbridge stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the answer waits until the command is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(12);

/// How long the engine may take to report the end of a command that ended in time.
const ENGINE_GRACE: Duration = Duration::from_secs(10);
