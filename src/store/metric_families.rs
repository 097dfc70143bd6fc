//! The metrics of the store as `/metrics` shows them.

use super::{handle::Store, snapshot::Snapshot};
use crate::{
    model::{engine::EngineHealth, record::SandboxState},
    telemetry::registry::{RegisterMetrics, Registry, Sample, counted},
};

impl RegisterMetrics for Store {
    fn register(&self, registry: &mut Registry) {
        let metrics = &self.metrics;
        registry.register(
            "dockbridge_engine_events_total",
            "Docker events that dockbridge handled",
            &metrics.events,
        );
        registry.register(
            "dockbridge_store_relists_total",
            "Full lists of containers fetched from Docker",
            &metrics.lists,
        );
        registry.register_family(
            "dockbridge_store_inspects_total",
            &["object", "result"],
            "Inspects of containers (including pause containers) and images for the store",
            &metrics.inspects,
        );
        registry.register(
            "dockbridge_engine_event_stream_disconnects_total",
            "Times the Docker event stream ended or could not be opened",
            &metrics.disconnects,
        );
        register_state(self, registry);
    }
}

/// Registers metrics that are computed when a client reads `/metrics`.
fn register_state(store: &Store, registry: &mut Registry) {
    let metrics = store.metrics.clone();
    registry.register_fn(
        "dockbridge_engine_last_contact_age_seconds",
        &[],
        "Time since Docker last opened the event stream, sent a list or an event that dockbridge handles, or answered a ping during the stream; absent before the first stream",
        move || {
            let since = metrics.since_last_contact();
            since.map(|since| Sample::single(since.as_secs_f64())).unwrap_or_default()
        },
    );
    let mut gauge = |name: &'static str, help: &'static str, value: fn(&Snapshot) -> f64| {
        let store = store.clone();
        registry.register_fn(name, &[], help, move || Sample::single(value(&store.snapshot())));
    };
    gauge(
        "dockbridge_store_synced",
        "1 once Docker has listed its containers and CRI clients can list pods; stays 1 if Docker goes down",
        |now| f64::from(u8::from(now.is_synced())),
    );
    gauge(
        "dockbridge_store_initial_inspects_complete",
        "1 once the containers of pods in the first list were inspected, the inspects of the images have ended, and Docker hides no running container of another image store; otherwise, dockbridge cleans up no leftovers of pods except commands of ExecSync and unfinished container or pod checkpoints",
        |now| f64::from(u8::from(now.is_complete())),
    );
    gauge(
        "dockbridge_store_uninspected_objects",
        "Containers, pods and images known from lists only: their inspect is pending or failed",
        |now| counted(now.uninspected().count()),
    );
    gauge(
        "dockbridge_engine_reachable",
        "1 while the Docker Engine answers and dockbridge knows the engine's containers",
        |now| f64::from(u8::from(now.health == EngineHealth::Reachable)),
    );
    gauge("dockbridge_images", "Images that Docker lists", |now| counted(now.images().len()));
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
            snapshot.containers().iter().map(|container| container.process.state_name()),
        )
    });
}

fn by_state<const N: usize>(
    names: [&'static str; N],
    states: impl Iterator<Item = &'static str>,
) -> Vec<Sample<1>> {
    let states: Vec<&str> = states.collect();
    let count = |name: &&str| states.iter().filter(|state| *state == name).count();
    names.iter().map(|name| Sample::labelled([name], counted(count(name)))).collect()
}
