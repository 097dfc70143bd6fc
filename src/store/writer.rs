//! The only task that changes the store. The writer handles commands, signals and ended inspects, and
//! publishes snapshots.
//!
//! The writer handles up to [`BATCH`] messages before it starts inspects and can publish a snapshot. After a snapshot,
//! the next one follows after a pause: four times as long as the snapshot took to make and publish, but at most 100 ms.
//! The pause delays neither messages nor inspects. So ten thousand events at once cause only a few snapshots.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    task::{self, AbortHandle, JoinError, JoinSet},
    time,
};
use tracing::{debug, warn};

use super::{
    command::{Command, Signal},
    event_stream::EventStream,
    handle::Store,
    hooks::StoreHooks,
    inspect_queue::{Generation, Target},
    inspector::Inspector,
    metrics::StoreMetrics,
    objects::Inspected,
    oom::{KillEvent, OomDetector},
    publisher::{Publisher, Reply},
    settings::StoreSettings,
    snapshot::Snapshot,
    state::{Listing, StoreState},
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    concurrency::backoff::Backoff,
    engine::client::Engine,
    error::{Failure, Kind, chain},
    model::{
        engine::{EngineEvent, EngineInfo},
        time::Nanos,
    },
};

impl Store {
    /// Starts the store, which connects to the engine as soon as the engine is available. `checkpoints` are the
    /// contents of the pods' checkpoint files, and `oom` determines which containers ran out of memory. Must be called
    /// inside a Tokio runtime.
    pub fn start(
        engine: Engine,
        checkpoints: Vec<SandboxCheckpoint>,
        settings: StoreSettings,
        hooks: impl StoreHooks + 'static,
        oom: OomDetector,
    ) -> Self {
        let (to_commands, commands) = mpsc::channel(COMMANDS);
        let (to_published, published) = watch::channel(Arc::new(Snapshot::empty()));
        let (to_signals, signals) = mpsc::channel(SIGNALS);
        let inspector = Inspector {
            engine,
            hooks: Arc::new(hooks),
            oom: oom.clone(),
            settings,
            signals: to_signals,
            relist: Arc::default(),
        };
        let metrics = StoreMetrics::default();
        let publisher = Publisher::new(to_published, metrics.clone());
        let writer = Writer::new(inspector, signals, checkpoints, publisher);
        task::spawn(writer.run(commands));
        Self { commands: to_commands, published, metrics, oom }
    }
}

struct Writer {
    inspector: Inspector,
    state: StoreState<Reply, Failure>,
    publisher: Publisher,
    signals: mpsc::Receiver<Signal>,
    tasks: JoinSet<Done>,
    inspecting: HashMap<task::Id, (Target, Generation)>,
    event_stream: AbortHandle,
    ping_timer: time::Interval,
    pinging: bool,
}

enum Done {
    Inspected(Target, Generation, Result<Inspected, Failure>),
    RetryDue(Target),
    EngineInfo(Box<EngineInfo>),
    Pinged(Option<String>),
    PingDue,
    Nothing,
}

enum Wake {
    Command(Command),
    Signal(Signal),
    TaskEnded(Result<(task::Id, Done), JoinError>),
    PingDue,
    Publish,
    Close,
}

impl Writer {
    fn new(
        inspector: Inspector,
        signals: mpsc::Receiver<Signal>,
        checkpoints: Vec<SandboxCheckpoint>,
        publisher: Publisher,
    ) -> Self {
        let mut tasks = JoinSet::new();
        // The interval has a minimum, because tokio panics if it is zero.
        let mut ping_timer = time::interval(inspector.settings.ping_interval.max(PING_AGAIN_AFTER));
        ping_timer.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let event_stream = follow(&mut tasks, &inspector);
        Self {
            state: StoreState::new(&inspector.settings, checkpoints),
            inspector,
            publisher,
            signals,
            tasks,
            inspecting: HashMap::new(),
            event_stream,
            ping_timer,
            pinging: false,
        }
    }

    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let mut wake = self.wait(&mut commands).await;
            for _ in 0..BATCH {
                match wake {
                    Wake::Close => return,
                    Wake::Publish => break,
                    other => self.handle(other),
                }
                let Some(next) = self.ready(&mut commands) else { break };
                wake = next;
            }
            self.start_inspects();
            self.publisher.flush(&mut self.state);
        }
    }

    async fn wait(&mut self, commands: &mut mpsc::Receiver<Command>) -> Wake {
        tokio::select! {
            command = commands.recv() => command.map_or(Wake::Close, Wake::Command),
            Some(signal) = self.signals.recv() => Wake::Signal(signal),
            Some(ended) = self.tasks.join_next_with_id() => Wake::TaskEnded(ended),
            _ = self.ping_timer.tick() => Wake::PingDue,
            () = time::sleep_until(self.publisher.not_before), if self.state.is_due() => Wake::Publish,
        }
    }

    fn ready(&mut self, commands: &mut mpsc::Receiver<Command>) -> Option<Wake> {
        let command = || commands.try_recv().ok().map(Wake::Command);
        let ended = self.tasks.try_join_next_with_id().map(Wake::TaskEnded);
        ended.or_else(command).or_else(|| self.signals.try_recv().ok().map(Wake::Signal))
    }

    fn handle(&mut self, wake: Wake) {
        match wake {
            Wake::Command(command) => self.handle_command(command),
            Wake::Signal(signal) => self.handle_signal(signal),
            Wake::TaskEnded(Ok((id, done))) => {
                self.inspecting.remove(&id);
                self.handle_done(done);
            }
            // Only the end of the writer or the Tokio runtime cancels a task.
            Wake::TaskEnded(Err(error)) if error.is_cancelled() => {}
            Wake::TaskEnded(Err(error)) => self.handle_panic(&error),
            Wake::PingDue => self.ping(),
            Wake::Publish | Wake::Close => {}
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Refresh { target, answered, reply } => {
                self.state.refresh(target, answered, Reply(reply));
            }
            Command::SetCheckpoint { id, checkpoint, reply } => {
                self.state.set_checkpoint(&id, checkpoint.map(|it| *it));
                self.publisher.waiting.push(reply);
            }
            Command::ImageUnlisted { id, reply } => {
                self.state.image_unlisted(&id);
                self.publisher.waiting.push(reply);
            }
            Command::Ping { reply } => drop(reply.send(())),
        }
    }

    fn handle_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Connected(engine) => {
                self.metrics().contact();
                self.state.set_engine(*engine);
                self.state.connected();
            }
            Signal::Listing => self.state.listing(),
            Signal::Listed(listing) => {
                self.metrics().lists.inc();
                self.metrics().contact();
                // Before a connection's first list, `EventStream` has just read `/info`. After a later list of a
                // ready connection, the writer reads `/info`, because the event of a reload may have been lost.
                if self.state.is_ready() {
                    self.read_info(1);
                }
                self.forget_exit_causes(&listing);
                self.state.listed(&listing);
            }
            Signal::Event(event, at) => self.handle_event(event, at),
            Signal::Disconnected(reason) => {
                self.metrics().disconnects.inc();
                self.state.disconnected(reason);
            }
            Signal::Slow(target, at) => self.state.set_slow(&target, at),
            Signal::Provisional(record, at) => self.state.show_provisional(*record, at),
        }
    }

    fn handle_event(&mut self, event: EngineEvent, at: Nanos) {
        self.metrics().events.inc();
        self.metrics().contact();
        match &event {
            EngineEvent::ContainerGone { id } => {
                self.inspector.hooks.gone(id);
                self.inspector.oom.forget(id);
                self.save_exit_causes();
            }
            EngineEvent::ContainerKilled { id } => {
                self.inspector.oom.record(id, KillEvent::EngineKill, at);
            }
            EngineEvent::ContainerOom { id } => {
                self.inspector.oom.record(id, KillEvent::OutOfMemory, at);
            }
            // The engine may return one answer to several concurrent callers of `/info`, possibly from before the
            // reload. A second call, after the first one has returned, gets a new answer.
            EngineEvent::DaemonReloaded => self.read_info(2),
            _ => {}
        }
        self.state.event(event, at);
    }

    /// Removes the exit causes of containers that the last two lists lack. For causes that an earlier
    /// dockbridge process has saved, one list is enough.
    fn forget_exit_causes(&mut self, listing: &Listing) {
        let listed: HashSet<&str> = listing.containers.iter().map(|one| one.id.as_str()).collect();
        self.inspector.oom.retain(|id| listed.contains(id));
        self.save_exit_causes();
    }

    fn save_exit_causes(&mut self) {
        let oom = &self.inspector.oom;
        if !oom.is_saved() {
            let oom = oom.clone();
            self.tasks.spawn(async move {
                oom.save().await;
                Done::Nothing
            });
        }
    }

    fn handle_done(&mut self, done: Done) {
        match done {
            Done::Inspected(target, at, result) => self.inspected(&target, at, result),
            Done::RetryDue(target) => self.state.retry(&target),
            Done::EngineInfo(engine) => self.state.set_engine(*engine),
            Done::Pinged(failure) => self.pinged(failure),
            Done::PingDue => self.ping(),
            Done::Nothing => {}
        }
    }

    /// A panic is a bug, but the store continues.
    fn handle_panic(&mut self, error: &JoinError) {
        warn!(%error, "internal error: panic in a task of the store; the store continues");
        if let Some((target, at)) = self.inspecting.remove(&error.id()) {
            let text = format!("internal error: the inspect of {} panicked", target.name());
            self.inspected(&target, at, Err(Failure::new(Kind::Internal, text)));
        } else if error.id() == self.event_stream.id() {
            let reason = "internal error: the task that reads Docker's events panicked";
            self.state.disconnected(reason.to_owned());
            self.event_stream = follow(&mut self.tasks, &self.inspector);
        } else {
            self.pinging = false;
        }
    }

    fn start_inspects(&mut self) {
        while let Some((target, at)) = self.state.start() {
            let result = self.inspector.clone().run(target.clone(), at);
            let named = target.clone();
            let task = self.tasks.spawn(async move { Done::Inspected(named, at, result.await) });
            self.inspecting.insert(task.id(), (target, at));
        }
    }

    fn inspected(&mut self, target: &Target, at: Generation, result: Result<Inspected, Failure>) {
        self.metrics().inspected(target, result.is_ok());
        if result.is_err() && matches!(target, Target::Container(_)) {
            self.inspector.relist.notify_one();
        }
        let error = result.as_ref().err().map(|error| chain(error)).unwrap_or_default();
        let Some(failures) = self.state.inspected(target, at, result) else { return };
        let longest = self.inspector.settings.relist_interval;
        // The pause is at most the interval between lists, because a list queues the inspect anyway.
        let pause = Backoff::new(FIRST_INSPECT_RETRY, longest).after(failures);
        if failures == 1 {
            warn!(
                error,
                "docker inspect failed; retrying, and serving the last known state if any"
            );
        } else {
            debug!(error, failures, "docker inspect failed again; retrying");
        }
        let target = target.clone();
        self.tasks.spawn(async move {
            time::sleep(pause).await;
            Done::RetryDue(target)
        });
    }

    const fn metrics(&self) -> &StoreMetrics {
        &self.publisher.metrics
    }

    fn engine(&self) -> (Engine, Duration) {
        (self.inspector.engine.clone(), self.inspector.settings.connect_deadline)
    }

    /// Reads the engine's `/info` this many times, and uses the last answer.
    fn read_info(&mut self, times: u32) {
        let (engine, deadline) = self.engine();
        let hooks = self.inspector.hooks.clone();
        self.tasks.spawn(async move {
            for _ in 1..times {
                let _ = time::timeout(deadline, engine.info()).await;
            }
            match time::timeout(deadline, engine.info()).await {
                Ok(Ok(info)) => {
                    hooks.engine(&info).await;
                    Done::EngineInfo(Box::new(info))
                }
                Ok(Err(error)) => {
                    warn!(
                        error = chain(&error),
                        "docker info failed; keeping the last known answer"
                    );
                    Done::Nothing
                }
                // A ping then shows whether the engine answers at all.
                Err(_) => Done::PingDue,
            }
        });
    }

    /// Pings the engine, because a frozen engine keeps its event stream open.
    fn ping(&mut self) {
        if self.pinging || !self.state.is_connected() {
            return;
        }
        self.pinging = true;
        let (engine, deadline) = self.engine();
        self.tasks.spawn(async move {
            Done::Pinged(match time::timeout(deadline, engine.negotiate()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(chain(&error)),
                Err(_) => Some(format!("Docker did not answer a ping within {deadline:?}")),
            })
        });
    }

    /// After a failed ping, the next one follows sooner than usual.
    fn pinged(&mut self, failure: Option<String>) {
        self.pinging = false;
        if failure.is_none() {
            self.metrics().contact();
        } else {
            self.ping_timer.reset_after(PING_AGAIN_AFTER);
        }
        self.state.pinged(failure);
    }
}

fn follow(tasks: &mut JoinSet<Done>, inspector: &Inspector) -> AbortHandle {
    let event_stream = EventStream::new(inspector);
    tasks.spawn(async {
        event_stream.run().await;
        Done::Nothing
    })
}

/// Maximum number of commands in the queue of the writer. Further callers wait.
const COMMANDS: usize = 256;
/// Maximum number of signals in the queue of the writer. While the queue is full, dockbridge reads no events, and
/// the engine drops events for a slow reader.
const SIGNALS: usize = 4096;
const BATCH: usize = 4096;
const FIRST_INSPECT_RETRY: Duration = Duration::from_millis(250);
/// Pause after a failed ping. The engine must count as ready within two seconds after a recovery.
const PING_AGAIN_AFTER: Duration = Duration::from_millis(500);
