//! What dockbridge knows, as JSON, for finding faults. The JSON has no environment, command lines, labels or
//! annotations, because they may contain secrets.

use std::fmt;

use serde_json::{Value, json};

use crate::{
    model::{
        attachment::{Attachment, NetworkStatus},
        engine::EngineHealth,
        record::{ContainerRecord, ImageRecord, Process, SandboxRecord},
    },
    store::snapshot::Snapshot,
};

/// The state of a snapshot of the store, and the network's status, as JSON.
pub fn state(now: &Snapshot, network: &NetworkStatus) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "synced": now.is_synced(),
        "complete": now.is_complete(),
        "uninspected": now.uninspected().collect::<Vec<_>>(),
        "engine": engine(now),
        "network": {
            "ready": network.ready, "reason": network.reason, "message": network.message,
        },
        "pods": now.sandboxes().iter().map(|pod| sandbox(now, pod)).collect::<Vec<_>>(),
        "images": now.images().iter().map(|image| of_image(image)).collect::<Vec<_>>(),
        "spentCheckpoints":
            now.obsolete_checkpoints().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn engine(now: &Snapshot) -> Value {
    let health = match &now.health {
        EngineHealth::Starting => json!({ "state": "starting" }),
        EngineHealth::Reachable => json!({ "state": "reachable" }),
        EngineHealth::Unreachable { reason } => json!({ "state": "unreachable", "reason": reason }),
    };
    let Some(engine) = &now.engine else { return json!({ "health": health }) };
    json!({
        "health": health,
        "version": engine.version,
        "api": engine.api.to_string(),
        "cgroupDriver": word(&engine.cgroup_driver),
        "cgroupVersion": engine.cgroup_version,
        "rootDir": engine.root_dir,
        "containerdStore": engine.containerd_store,
        "storageDriver": engine.storage_driver,
        "defaultRuntime": engine.default_runtime,
        "kernel": engine.kernel,
        "warnings": engine.warnings,
    })
}

fn sandbox(now: &Snapshot, pod: &SandboxRecord) -> Value {
    let metadata = &pod.document.spec.metadata;
    let shown = json!({
        "id": pod.id.as_str(),
        "name": pod.name,
        "pod": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "attempt": metadata.attempt,
        "state": word(&pod.state()),
        "createdAt": pod.created_at.0,
        "process": pod.process.as_ref().map(process),
        "network": word(&pod.document.network),
        "attachment": pod.attachment.as_ref().map(attachment),
        "addresses": pod.addresses(),
        "containers":
            now.containers_of(&pod.id).map(|one| container(one)).collect::<Vec<_>>(),
    });
    with_listed_only(shown, pod.process.as_ref().is_some_and(Process::is_listed))
}

fn container(record: &ContainerRecord) -> Value {
    let metadata = &record.document.spec.metadata;
    let shown = json!({
        "id": record.id.as_str(),
        "name": record.name,
        "container": metadata.name,
        "attempt": metadata.attempt,
        "image": record.document.image_ref,
        "createdAt": record.created_at.0,
        "process": process(&record.process),
        "engineLog": record.engine_log,
    });
    with_listed_only(shown, record.process.is_listed())
}

fn process(process: &Process) -> Value {
    let state = process.state_name();
    match process {
        Process::Running { pid, started_at } => {
            json!({ "state": state, "pid": pid, "startedAt": started_at.0 })
        }
        // Left out: the engine's `message`, which may contain the container's command line.
        Process::Exited { started_at, finished_at, exit_code, reason, message: _ } => json!({
            "state": state, "startedAt": started_at.0, "finishedAt": finished_at.0,
            "exitCode": exit_code, "reason": reason.as_str(),
        }),
        Process::Created | Process::Listed(_) | Process::Unknown => json!({ "state": state }),
    }
}

/// Of the results of CNI plugins, shows only the addresses, because the plugins decide what the rest contains.
fn attachment(attachment: &Attachment) -> Value {
    match attachment {
        Attachment::Adding(cni) => json!({ "state": "adding", "network": cni.network }),
        Attachment::Ready { cni, addresses, .. } => {
            json!({ "state": "ready", "network": cni.network, "addresses": addresses })
        }
        Attachment::Released => json!({ "state": "released" }),
    }
}

fn of_image(image: &ImageRecord) -> Value {
    let shown = json!({ "id": image.id.as_str(), "tags": image.repo_tags, "size": image.size });
    with_listed_only(shown, !image.inspected)
}

/// The name of a variant as a JSON word: `NotReady` is `notReady`.
fn word(variant: &impl fmt::Debug) -> String {
    let name = format!("{variant:?}");
    let (first, rest) = name.split_at(1.min(name.len()));
    first.to_lowercase() + rest
}

/// Marks an object that dockbridge knows only from the engine's list.
fn with_listed_only(mut shown: Value, listed_only: bool) -> Value {
    if let (true, Value::Object(shown)) = (listed_only, &mut shown) {
        shown.insert("listedOnly".to_owned(), true.into());
    }
    shown
}
