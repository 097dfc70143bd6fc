//! The one task that writes: takes in commands, signals and finished looks, and publishes.
//!
//! Whatever is ready is taken in before one snapshot is published, and a snapshot that was costly
//! to make is not followed by another at once; so a burst of ten thousand events costs a few
//! snapshots, and a quiet engine's single event is visible immediately.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    sync::{mpsc, watch},
    task::{self, AbortHandle, JoinError, JoinSet},
    time,
};
use tracing::{debug, warn};

use super::{
    command::Command,
    error::StoreError,
    facts::Sight,
    gate::Gate,
    handle::Store,
    inquest::Inquest,
    inspect::{LookFailure, Looker},
    ledger::{Effect, Ledger, Listing},
    link::{self, Signal},
    look::{Target, Ticket},
    metrics::StoreMetrics,
    outlet::{Outlet, Reply},
    settings::StoreSettings,
    snapshot::Snapshot,
};
use crate::{
    checkpoint::record::SandboxCheckpoint,
    engine::{client::Engine, error::EngineError},
    error::chain,
    host::clock,
    model::{
        engine::{EngineEvent, EngineInfo},
        time::Nanos,
    },
};

impl Store {
    /// Starts the store: it connects by itself, now or whenever the engine appears. `checkpoints`
    /// are those of the last run; workloads are shown once they have passed the `gate`, and what
    /// killed them, if something did, is known by the `inquest`. Must be called inside a runtime.
    pub fn start(
        engine: Engine,
        checkpoints: Vec<SandboxCheckpoint>,
        settings: StoreSettings,
        gate: Gate,
        inquest: Inquest,
    ) -> Self {
        let current = Arc::new(ArcSwap::from_pointee(Snapshot::blank()));
        let (commands, orders) = mpsc::channel(COMMANDS);
        let (shout, published) = watch::channel(());
        let (to_signals, signals) = mpsc::channel(SIGNALS);
        let looker =
            Looker { engine, gate, inquest, settings, signals: to_signals, relist: Arc::default() };
        let metrics = StoreMetrics::default();
        let outlet = Outlet::new(&current, shout, metrics.clone());
        let writer = Writer::new(looker, signals, checkpoints, outlet);
        task::spawn(writer.run(orders));
        Self::new(current, commands, published, metrics)
    }
}

struct Writer {
    looker: Looker,
    ledger: Ledger<Reply, StoreError>,
    outlet: Outlet,
    signals: mpsc::Receiver<Signal>,
    work: JoinSet<Done>,
    looking: HashMap<task::Id, (Target, Ticket)>,
    link: AbortHandle,
    /// When the engine is asked next whether it answers at all.
    heartbeat: time::Interval,
    pinging: bool,
}

/// What a task of the writer comes back with.
enum Done {
    Looked(Target, Ticket, Result<Sight, LookFailure>),
    Rested(Target),
    Described(Result<Box<EngineInfo>, EngineError>),
    Pinged(Option<String>),
    PingDue,
    Unlinked,
    Saved,
}

/// What wakes the writer.
enum Wake {
    Command(Command),
    Signal(Signal),
    Work(Result<(task::Id, Done), JoinError>),
    Heartbeat,
    Publish,
    Close,
}

impl Writer {
    fn new(
        looker: Looker,
        signals: mpsc::Receiver<Signal>,
        checkpoints: Vec<SandboxCheckpoint>,
        outlet: Outlet,
    ) -> Self {
        let mut work = JoinSet::new();
        // An interval of zero would panic.
        let mut heartbeat = time::interval(looker.settings.ping_every.max(SILENCE_REST));
        heartbeat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let link = follow(&mut work, &looker);
        Self {
            ledger: Ledger::new(&looker.settings, checkpoints),
            looker,
            outlet,
            signals,
            work,
            looking: HashMap::new(),
            link,
            heartbeat,
            pinging: false,
        }
    }

    async fn run(mut self, mut orders: mpsc::Receiver<Command>) {
        loop {
            let mut wake = self.wait(&mut orders).await;
            for _ in 0..BATCH {
                match wake {
                    Wake::Close => return,
                    Wake::Publish => break,
                    other => self.take_in(other),
                }
                let Some(next) = self.ready(&mut orders) else { break };
                wake = next;
            }
            self.start_looks();
            self.outlet.flush(&mut self.ledger);
        }
    }

    async fn wait(&mut self, orders: &mut mpsc::Receiver<Command>) -> Wake {
        tokio::select! {
            order = orders.recv() => order.map_or(Wake::Close, Wake::Command),
            Some(signal) = self.signals.recv() => Wake::Signal(signal),
            Some(done) = self.work.join_next_with_id() => Wake::Work(done),
            _ = self.heartbeat.tick() => Wake::Heartbeat,
            () = time::sleep_until(self.outlet.not_before()), if self.ledger.is_due() => Wake::Publish,
        }
    }

    fn ready(&mut self, orders: &mut mpsc::Receiver<Command>) -> Option<Wake> {
        let order = || orders.try_recv().ok().map(Wake::Command);
        let done = self.work.try_join_next_with_id().map(Wake::Work);
        done.or_else(order).or_else(|| self.signals.try_recv().ok().map(Wake::Signal))
    }

    fn take_in(&mut self, wake: Wake) {
        match wake {
            Wake::Command(command) => self.obey(command),
            Wake::Signal(signal) => self.hear(signal),
            Wake::Work(Ok((id, done))) => {
                self.looking.remove(&id);
                self.take_back(done);
            }
            Wake::Work(Err(error)) => self.bear(&error),
            Wake::Heartbeat => self.ping(),
            Wake::Publish | Wake::Close => {}
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Refresh { target, reply } => self.ledger.refresh(target, Reply(reply)),
            Command::Put { checkpoint, reply } => {
                self.ledger.put(*checkpoint);
                self.outlet.announce(reply);
            }
            Command::Answer { reply } => drop(reply.send(())),
            Command::Forget { id, reply } => {
                self.ledger.forget(&id);
                self.outlet.announce(reply);
            }
        }
    }

    fn hear(&mut self, signal: Signal) {
        match signal {
            Signal::Linked(engine) => {
                self.metrics().links.inc();
                self.outlet.lag.begin(Nanos(clock::nanos()));
                self.metrics().heard();
                self.ledger.describe(*engine);
                self.ledger.linked();
            }
            Signal::Listing => self.ledger.listing(),
            Signal::Listed(listing) => {
                self.metrics().lists.inc();
                self.metrics().heard();
                // The first list follows a fresh `/info`; a later one makes up for a reload
                // whose event was lost.
                if self.ledger.is_up() {
                    self.read_info();
                }
                self.keep(&listing);
                self.ledger.listed(&listing);
            }
            Signal::Happened(event, at) => self.happened(event, at),
            Signal::Lost(reason) => {
                self.metrics().losses.inc();
                self.ledger.lost(reason);
            }
            Signal::Slowed(target, ticket) => self.ledger.slowed(&target, ticket),
            Signal::Glimpsed(record, ticket) => self.ledger.glimpsed(*record, ticket),
        }
    }

    fn happened(&mut self, event: EngineEvent, at: Nanos) {
        self.metrics().events.inc();
        self.metrics().heard();
        match &event {
            EngineEvent::ContainerGone { id } => {
                self.looker.gate.tell_gone(id);
                self.looker.inquest.forget(id);
                self.save();
            }
            EngineEvent::ContainerKilled { id } => self.looker.inquest.sentence(id, at),
            EngineEvent::ContainerOom { id } => self.looker.inquest.hear(id, at),
            _ => {}
        }
        match self.ledger.happened(event) {
            Effect::None => {}
            Effect::Wanted(target) => self.outlet.lag.happened(target.name(), at),
            Effect::Gone(target) => self.outlet.lag.lost(target.name(), at),
            Effect::Reloaded => self.read_info(),
        }
    }

    fn keep(&mut self, listing: &Listing) {
        let there: HashSet<&str> = listing.containers.iter().map(|one| one.id.as_str()).collect();
        self.looker.inquest.keep(|id| there.contains(id));
        self.save();
    }

    /// What is known of ends that the engine does not know.
    fn save(&mut self) {
        let inquest = &self.looker.inquest;
        if !inquest.is_saved() {
            let inquest = inquest.clone();
            self.work.spawn(async move {
                inquest.save().await;
                Done::Saved
            });
        }
    }

    fn take_back(&mut self, done: Done) {
        match done {
            Done::Looked(target, ticket, result) => self.looked(&target, ticket, result),
            Done::Rested(target) => self.ledger.rested(&target),
            Done::Described(Ok(engine)) => self.ledger.describe(*engine),
            Done::Described(Err(error)) => {
                warn!(error = chain(&error), "cannot read what the docker engine is");
            }
            Done::Pinged(silence) => self.pinged(silence),
            Done::PingDue => self.ping(),
            Done::Unlinked | Done::Saved => {}
        }
    }

    /// A task panicked: a bug, but not the end of the store.
    fn bear(&mut self, error: &JoinError) {
        warn!(%error, "a task of the store broke");
        if let Some((target, ticket)) = self.looking.remove(&error.id()) {
            self.looked(&target, ticket, Err(LookFailure::Lost));
        } else if error.id() == self.link.id() {
            self.ledger.lost("following it failed inside dockbridge".to_owned());
            self.link = follow(&mut self.work, &self.looker);
        } else {
            self.pinging = false;
        }
    }

    fn start_looks(&mut self) {
        while let Some((target, ticket)) = self.ledger.start() {
            self.outlet.lag.looks(target.name());
            let look = self.looker.clone().look(target.clone(), ticket);
            let looked = target.clone();
            let task = self.work.spawn(async move { Done::Looked(looked, ticket, look.await) });
            self.looking.insert(task.id(), (target, ticket));
        }
    }

    fn looked(&mut self, target: &Target, ticket: Ticket, result: Result<Sight, LookFailure>) {
        self.metrics().looked(target, result.is_ok());
        match (&result, target) {
            (Ok(_), _) => self.outlet.lag.seen(target.name()),
            (Err(_), Target::Container(_)) => self.looker.relist.notify_one(),
            (Err(_), Target::Image(_)) => {}
        }
        let result = result.map_err(|failure| failure.about(target.name()));
        let told = result.as_ref().err().map(|error| chain(error));
        let Some(failures) = self.ledger.looked(target, ticket, result) else { return };
        let rest = rest_after(failures, self.looker.settings.relist_every);
        let (name, error) = (target.name(), told.unwrap_or_default());
        if failures == 1 {
            warn!(object = name, error, "cannot look at it; keeping what was known last");
        } else {
            debug!(object = name, error, failures, "still cannot look at it");
        }
        let target = target.clone();
        self.work.spawn(async move {
            time::sleep(rest).await;
            Done::Rested(target)
        });
    }

    const fn metrics(&self) -> &StoreMetrics {
        &self.outlet.metrics
    }

    fn asking(&self) -> (Engine, Duration) {
        (self.looker.engine.clone(), self.looker.settings.connect_deadline)
    }

    fn read_info(&mut self) {
        let (engine, patience) = self.asking();
        let gate = self.looker.gate.clone();
        self.work.spawn(async move {
            match time::timeout(patience, engine.info()).await {
                Ok(Ok(info)) => {
                    gate.admit(&info).await;
                    Done::Described(Ok(Box::new(info)))
                }
                Ok(Err(error)) => Done::Described(Err(error)),
                // The ping tells whether it answers at all.
                Err(_) => Done::PingDue,
            }
        });
    }

    /// Asks whether the engine answers at all: a frozen one keeps its event stream open.
    fn ping(&mut self) {
        if self.pinging || !self.ledger.is_linked() {
            return;
        }
        self.pinging = true;
        let (engine, patience) = self.asking();
        self.work.spawn(async move {
            Done::Pinged(match time::timeout(patience, engine.negotiate()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(chain(&error)),
                Err(_) => Some(format!("it did not answer a ping within {patience:?}")),
            })
        });
    }

    /// A silent engine is asked more often than a healthy one.
    fn pinged(&mut self, silence: Option<String>) {
        self.pinging = false;
        if silence.is_none() {
            self.metrics().heard();
        }
        if silence.is_some() {
            self.heartbeat.reset_after(SILENCE_REST);
        }
        self.ledger.pinged(silence);
    }
}

fn follow(work: &mut JoinSet<Done>, looker: &Looker) -> AbortHandle {
    let following = link::follow(looker.clone());
    work.spawn(async {
        following.await;
        Done::Unlinked
    })
}

/// Doubles from failure to failure, up to the interval at which everything is looked at anyway.
fn rest_after(failures: u32, longest: Duration) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_REST.saturating_mul(doubled).min(longest)
}

/// Commands waiting for the writer before their callers wait too.
const COMMANDS: usize = 256;
/// Events read ahead of the writer; the engine drops them for a reader that falls behind.
const SIGNALS: usize = 4096;
/// Wake-ups taken in before looks are started and a snapshot is published.
const BATCH: usize = 4096;
const FIRST_REST: Duration = Duration::from_millis(250);
/// Between pings of a silent engine: readiness must be back within two seconds of its recovery.
const SILENCE_REST: Duration = Duration::from_millis(500);
