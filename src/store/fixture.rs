//! Test data of this module: records, and contents of checkpoint files.

use std::sync::Arc;

use serde_json::json;

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        attachment::Attachment,
        document::{ContainerDocument, SandboxDocument},
        id::{ContainerId, SandboxId},
        record::{ContainerRecord, Process, SandboxRecord},
        time::Nanos,
    },
};

pub(super) fn hex(number: u64) -> String {
    format!("{number:064x}")
}

pub(super) fn sandbox_id(number: u64) -> SandboxId {
    SandboxId::try_from(hex(number)).unwrap()
}

pub(super) fn sandbox_document(number: u64) -> SandboxDocument {
    let name = format!("pod-{number}");
    let metadata = json!({ "name": name, "namespace": "ns", "uid": hex(number), "attempt": 0 });
    let spec = json!({ "metadata": metadata });
    serde_json::from_value(json!({ "version": 1, "spec": spec, "network": "cni" })).unwrap()
}

pub(super) fn sandbox(number: u64, process: Process) -> SandboxRecord {
    SandboxRecord {
        id: sandbox_id(number),
        name: format!("k8s_POD_pod-{number}_ns_uid_0"),
        document: Arc::new(sandbox_document(number)),
        created_at: Nanos(i64::try_from(number).unwrap()),
        process: Some(process),
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

pub(super) fn container(number: u64, sandbox: u64, process: Process) -> ContainerRecord {
    let spec = json!({ "metadata": { "name": "c", "attempt": 0 }, "image": "app:1" });
    let document: ContainerDocument = serde_json::from_value(json!({
        "version": 1,
        "spec": spec,
        "sandbox": hex(sandbox),
        "image_id": format!("sha256:{}", hex(1)),
        "image_ref": format!("sha256:{}", hex(1)),
    }))
    .unwrap();
    ContainerRecord {
        id: ContainerId::try_from(hex(number)).unwrap(),
        name: format!("k8s_c_pod-{sandbox}_ns_uid_0"),
        document: Arc::new(document),
        created_at: Nanos(i64::try_from(number).unwrap()),
        process,
        stop_signal: None,
        hides_signals: false,
        engine_log: None,
        log_driver: String::new(),
        writable_layer: None,
        limits: Default::default(),
        command_line: Vec::new(),
    }
}

pub(super) fn attachment(number: u64) -> Attachment {
    let metadata = sandbox_document(number).spec.metadata;
    let pod = json!({
        "id": hex(number),
        "metadata": metadata,
        "netns": "/run/netns/x",
        "ports": [],
        "dns": null,
        "annotations": {},
        "cgroup_parent": "",
    });
    let cni = json!({ "pod": pod, "network": "n", "interface": "eth0", "config": "{}" });
    serde_json::from_value(json!({
        "state": "ready",
        "intent": cni,
        "addresses": ["10.0.0.2"],
        "result": {},
    }))
    .unwrap()
}

pub(super) fn checkpoint(number: u64, attachment: Option<Attachment>) -> SandboxCheckpoint {
    SandboxCheckpoint {
        id: sandbox_id(number),
        name: format!("k8s_POD_pod-{number}_ns_uid_0"),
        document: sandbox_document(number),
        created_at: Nanos(1),
        attachment,
    }
}
