//! Tests the store with the fake dockerd: the data that the store shows while the engine stops, starts,
//! hangs, or sends too few or too many events.

mod ends;
mod event_stream;
mod hanging;
mod hooks;
mod images;
mod sync;

use std::{sync::Arc, time::Duration};

use dockbridge::{
    checkpoint::record::SandboxCheckpoint,
    engine::client::{Engine, Timeouts},
    model::{engine::EngineHealth, label, record::Process},
    store::{
        handle::Store, hooks::NoHooks, oom::OomDetector, settings::StoreSettings,
        snapshot::Snapshot,
    },
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{
    bridge::{LONG, TIMEOUT},
    fake_dockerd::{server::FakeDockerd, world::World},
};

/// A time limit that is much longer than these tests need on a busy machine.
const SOON: Duration = LONG;

fn settings() -> StoreSettings {
    StoreSettings {
        inspect_deadline: TIMEOUT,
        connect_deadline: TIMEOUT,
        list_deadline: TIMEOUT,
        slow_after: Duration::from_millis(200),
        ..StoreSettings::default()
    }
}

fn start(docker: &FakeDockerd) -> Store {
    start_with(docker, Vec::new(), settings())
}

fn start_with(
    docker: &FakeDockerd,
    checkpoints: Vec<SandboxCheckpoint>,
    settings: StoreSettings,
) -> Store {
    let engine = Engine::new(docker.socket().to_owned(), Timeouts::default());
    Store::start(engine, checkpoints, settings, NoHooks, OomDetector::default())
}

async fn synced(docker: &FakeDockerd) -> Store {
    let store = start(docker);
    tokio::time::timeout(SOON, store.complete()).await.expect("the store sees everything soon");
    store
}

/// Adds a pause container, which is not started, and returns its id.
pub(crate) fn pod(world: &mut World, name: &str) -> String {
    pod_in(world, name, "")
}

/// Adds a pause container of dockbridge with the cgroup parent `cgroup`.
fn pod_in(world: &mut World, name: &str, cgroup: &str) -> String {
    let metadata = json!({ "name": name, "namespace": "ns", "uid": name, "attempt": 0 });
    let spec = json!({ "metadata": metadata, "cgroup_parent": cgroup });
    let document = json!({ "version": 1, "spec": spec, "network": "host" });
    let labels = json!({
        label::TYPE: label::TYPE_SANDBOX,
        label::SANDBOX_DOCUMENT: document.to_string(),
    });
    let body = json!({ "Labels": labels, "HostConfig": { "Init": false } });
    world.add_container(&format!("k8s_POD_{name}_ns_{name}_0"), body)
}

/// Adds a workload container, which is not started, and returns its id.
pub(crate) fn workload(world: &mut World, sandbox: &str, name: &str) -> String {
    let image = format!("sha256:{:064x}", 1);
    let spec = json!({ "metadata": { "name": name, "attempt": 0 }, "image": image });
    let document = json!({
        "version": 1, "spec": spec, "sandbox": sandbox, "image_id": image, "image_ref": image,
    });
    let labels = json!({
        label::TYPE: label::TYPE_CONTAINER,
        label::SANDBOX_ID: sandbox,
        label::CONTAINER_DOCUMENT: document.to_string(),
    });
    let host = json!({ "NetworkMode": format!("container:{sandbox}"), "Init": false });
    let body = json!({ "Labels": labels, "HostConfig": host });
    world.add_container(&format!("k8s_{name}_pod_ns_uid_0"), body)
}

/// Ends a container without an event of the engine.
fn end_silently(world: &mut World, id: &str) {
    let container = world.container_mut(id).unwrap();
    container.status = "exited".to_owned();
    container.finished = "2024-01-01T00:00:00Z".to_owned();
    container.pid = 0;
}

async fn until(
    store: &Store,
    what: &str,
    mut holds: impl FnMut(&Snapshot) -> bool,
) -> Arc<Snapshot> {
    let found = store.wait(SOON, |snapshot| holds(snapshot).then_some(())).await;
    let shown = store.snapshot();
    assert!(found.is_some(), "never: {what}; shown: {shown:#?}");
    shown
}

fn runs(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.sandbox(id).is_some_and(|s| s.process.as_ref().is_some_and(Process::is_running))
}

fn ended(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.sandbox(id).is_some_and(|s| matches!(s.process, Some(Process::Exited { .. })))
}

fn is_up(snapshot: &Snapshot) -> bool {
    snapshot.health == EngineHealth::Reachable
}

fn is_away(snapshot: &Snapshot) -> bool {
    matches!(snapshot.health, EngineHealth::Unreachable { .. })
}

fn event(kind: &str, action: &str, id: &str) -> Value {
    json!({ "Type": kind, "Action": action, "Actor": { "ID": id } })
}

fn elapsed_below(began: Instant, limit: Duration) {
    assert!(began.elapsed() < limit, "it took {:?}", began.elapsed());
}
