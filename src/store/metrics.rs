//! What is counted of the store: how true it is, how soon, and at what price.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use super::{handle::Store, look::Target};
use crate::{
    host::clock,
    model::{
        engine::EngineHealth,
        record::{Listed, Process, SandboxState},
    },
    telemetry::{
        metric::{Counter, Family, Histogram},
        registry::{RegisterMetrics, Registry, Sample, counted},
    },
};

/// The metrics of the writer. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {
    /// From an event in the engine to the snapshot that shows what came of it.
    pub(super) lag: Histogram,
    pub(super) events: Counter,
    pub(super) lists: Counter,
    pub(super) links: Counter,
    pub(super) losses: Counter,
    pub(super) snapshots: Counter,
    looks: Family<Counter, 2>,
    /// When the engine last said something, in nanoseconds since the epoch; 0 for never.
    heard: Arc<AtomicI64>,
}

impl StoreMetrics {
    /// The engine has said something: what is known of it is true now.
    pub(super) fn heard(&self) {
        self.heard.store(clock::nanos(), Ordering::Relaxed);
    }

    /// A look has ended.
    pub(super) fn looked(&self, target: &Target, saw: bool) {
        let object = match target {
            Target::Container(_) => "container",
            Target::Image(_) => "image",
        };
        self.looks.with([object, if saw { "ok" } else { "error" }]).inc();
    }

    /// How long ago the engine last said something.
    pub fn silence(&self) -> Option<Duration> {
        let heard = self.heard.load(Ordering::Relaxed);
        let since = u64::try_from(clock::nanos().saturating_sub(heard)).unwrap_or_default();
        (heard != 0).then(|| Duration::from_nanos(since))
    }
}

impl RegisterMetrics for Store {
    fn register(&self, registry: &mut Registry) {
        let metrics = self.metrics();
        registry.register(
            "dockbridge_store_update_duration_seconds",
            "Time from a Docker event until lists and statuses show it",
            &metrics.lag,
        );
        registry.register(
            "dockbridge_engine_events_total",
            "Docker events received",
            &metrics.events,
        );
        registry.register(
            "dockbridge_store_relists_total",
            "Full lists of containers fetched from Docker: one per connection, then periodically",
            &metrics.lists,
        );
        registry.register_family(
            "dockbridge_store_inspects_total",
            &["object", "result"],
            "Docker inspects made to update the store",
            &metrics.looks,
        );
        registry.register(
            "dockbridge_engine_event_stream_connects_total",
            "Times the Docker event stream was opened",
            &metrics.links,
        );
        registry.register(
            "dockbridge_engine_event_stream_disconnects_total",
            "Times the Docker event stream ended or could not be opened",
            &metrics.losses,
        );
        registry.register(
            "dockbridge_store_snapshots_total",
            "Snapshots of the store published to readers",
            &metrics.snapshots,
        );
        show_state(self, registry);
    }
}

/// What the snapshot says whenever somebody asks.
fn show_state(store: &Store, registry: &mut Registry) {
    let heard = store.metrics().clone();
    registry.register_fn(
        "dockbridge_engine_last_contact_age_seconds",
        &[],
        "Time since Docker last sent anything; absent before its first answer",
        move || {
            heard.silence().map(|since| Sample::single(since.as_secs_f64())).unwrap_or_default()
        },
    );
    let now = store.clone();
    registry.register_fn(
        "dockbridge_store_synced",
        &[],
        "1 once Docker's containers have been listed",
        move || Sample::single(f64::from(u8::from(now.snapshot().is_synced()))),
    );
    let now = store.clone();
    registry.register_fn(
        "dockbridge_store_initial_inspects_complete",
        &[],
        "1 once everything in the first list has been inspected; nothing is cleaned up before",
        move || Sample::single(f64::from(u8::from(now.snapshot().is_complete()))),
    );
    let now = store.clone();
    registry.register_fn(
        "dockbridge_store_uninspected_objects",
        &[],
        "Containers, pods and images known from lists only: their inspect has not answered",
        move || Sample::single(counted(now.snapshot().uninspected().count())),
    );
    let now = store.clone();
    registry.register_fn(
        "dockbridge_engine_reachable",
        &[],
        "1 while the Docker Engine answers",
        move || {
            let reachable = now.snapshot().health == EngineHealth::Reachable;
            Sample::single(f64::from(u8::from(reachable)))
        },
    );
    let now = store.clone();
    registry.register_fn("dockbridge_pods", &["state"], "Pods by state", move || {
        let snapshot = now.snapshot();
        by_state(
            ["ready", "not_ready"],
            snapshot.sandboxes().iter().map(|pod| match pod.state() {
                SandboxState::Ready => "ready",
                SandboxState::NotReady => "not_ready",
            }),
        )
    });
    let now = store.clone();
    registry.register_fn("dockbridge_containers", &["state"], "Containers by state", move || {
        let snapshot = now.snapshot();
        by_state(
            ["created", "running", "exited", "unknown"],
            snapshot.containers().iter().map(|container| word(&container.process)),
        )
    });
    let now = store.clone();
    registry.register_fn("dockbridge_images", &[], "Images on the node", move || {
        Sample::single(counted(now.snapshot().images().len()))
    });
}

/// A process' state as a word.
pub const fn word(process: &Process) -> &'static str {
    match process {
        Process::Created | Process::Listed(Listed::Created) => "created",
        Process::Running { .. } | Process::Listed(Listed::Running) => "running",
        Process::Exited { .. } | Process::Listed(Listed::Exited { .. }) => "exited",
        Process::Unknown => "unknown",
    }
}

fn by_state<const N: usize>(
    words: [&'static str; N],
    states: impl Iterator<Item = &'static str>,
) -> Vec<Sample<1>> {
    let states: Vec<&str> = states.collect();
    let of = |word: &&str| states.iter().filter(|state| *state == word).count();
    words.iter().map(|word| Sample::labelled([word], counted(of(word)))).collect()
}
