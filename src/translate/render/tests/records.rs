//! Sample records of a pod, its container, an image and an engine.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{
    model::{
        accounts::ProcessUser,
        attachment::{Attachment, CniAttachment, PodNetwork},
        document::{ContainerDocument, SandboxDocument, VERSION},
        engine::{ApiVersion, CgroupDriver, EngineInfo, OciRuntime},
        id::{ContainerId, ImageId, SandboxId},
        network::NetworkMode,
        record::{ContainerRecord, ExitReason, ImageRecord, Process, SandboxRecord},
        time::Nanos,
    },
    translate::{
        parse::{container::container_spec, sandbox::sandbox_spec, tests::sample},
        render::container::{ContainerView, status},
    },
    wire::cri,
};

pub(super) fn sandbox_id() -> SandboxId {
    SandboxId::try_from("5".repeat(64)).unwrap()
}

pub(super) fn image_id() -> ImageId {
    ImageId::try_from(format!("sha256:{}", "ab".repeat(32))).unwrap()
}

pub(super) fn running() -> Process {
    Process::Running { pid: 4242, started_at: Nanos(2_000_000_001) }
}

pub(super) fn sandbox_record() -> SandboxRecord {
    let spec = sandbox_spec(Some(&sample::sandbox()), "kata").unwrap();
    let pod = PodNetwork {
        id: sandbox_id(),
        metadata: spec.metadata.clone(),
        netns: "/run/netns/x".into(),
        ports: Vec::new(),
        dns: None,
        annotations: BTreeMap::new(),
        cgroup_parent: String::new(),
    };
    let cni = CniAttachment {
        pod,
        network: "pods".to_owned(),
        interface: "eth0".to_owned(),
        config: "{}".to_owned(),
        pod_cidrs: Vec::new(),
        capabilities: None,
    };
    let addresses = ["10.1.0.7".parse().unwrap(), "fd00::7".parse().unwrap()].to_vec();
    let result = json!({ "cniVersion": "1.0.0" });
    SandboxRecord {
        id: sandbox_id(),
        name: "k8s_POD_web-0_shop_6f2a_3".to_owned(),
        document: Arc::new(SandboxDocument {
            version: VERSION,
            spec,
            network: NetworkMode::Cni,
            shim_group: None,
            is_adopted: false,
        }),
        created_at: Nanos(1_000_000_001),
        process: Some(running()),
        engine_addresses: Vec::new(),
        attachment: Some(Attachment::Ready { cni, addresses, result, started_at: None }),
    }
}

pub(super) fn container_record(process: Process) -> ContainerRecord {
    let spec = container_spec(Some(&sample::container()), Some(&sample::sandbox())).unwrap();
    ContainerRecord {
        id: ContainerId::try_from("c".repeat(64)).unwrap(),
        name: "k8s_nginx_web-0_shop_6f2a_2".to_owned(),
        document: Arc::new(ContainerDocument {
            image_ref: "nginx@sha256:00".to_owned(),
            user: Some(ProcessUser { uid: 1000, gid: 1001, groups: vec![1001, 2000] }),
            ..ContainerDocument::new(spec, sandbox_id(), image_id())
        }),
        created_at: Nanos(1_500_000_001),
        process,
        stop_signal: Some("RTMIN+3".to_owned()),
        hides_signals: false,
        engine_log: None,
        log_driver: String::new(),
        writable_layer: None,
        limits: Default::default(),
        command_line: Vec::new(),
    }
}

pub(super) fn exited() -> Process {
    Process::Exited {
        started_at: Nanos(2),
        finished_at: Nanos(3),
        exit_code: 137,
        reason: ExitReason::OomKilled,
        message: "killed".to_owned(),
    }
}

pub(super) fn image_record(tags: &[&str]) -> ImageRecord {
    ImageRecord {
        id: image_id(),
        repo_tags: sample::texts(tags),
        repo_digests: sample::texts(&["nginx@sha256:00"]),
        size: 77,
        user: String::new(),
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        stop_signal: None,
        volumes: Default::default(),
        inspected: true,
    }
}

pub(super) fn engine() -> EngineInfo {
    let runtime = |name: &str, features: Option<Value>| {
        let path = name.to_owned();
        (path.clone(), OciRuntime { path, features, ..OciRuntime::default() })
    };
    EngineInfo {
        version: "28.5.2".to_owned(),
        api: ApiVersion::new(51),
        cgroup_driver: CgroupDriver::Systemd,
        cgroup_version: 2,
        root_dir: "/var/lib/docker".into(),
        containerd_store: false,
        storage_driver: "overlay2".to_owned(),
        runtimes: BTreeMap::from([
            runtime("runc", Some(json!({ "mountOptions": ["acl", "rro"] }))),
            runtime("kata", None),
            runtime("crun", Some(json!({ "mountOptions": 3 }))),
        ]),
        default_runtime: "runc".to_owned(),
        security_options: Vec::new(),
        log_driver: "json-file".to_owned(),
        live_restore: true,
        kernel: "6.1.0-13-amd64".to_owned(),
        containerd_socket: None,
        nftables: false,
        hub_mirrors: Vec::new(),
        serves_nri: false,
        cdi_spec_dirs: Vec::new(),
        warnings: Vec::new(),
        daemon_id: "id".to_owned(),
        other_store: None,
    }
}

pub(super) fn read_info(info: &std::collections::BTreeMap<String, String>) -> Value {
    serde_json::from_str(&info["info"]).unwrap()
}

/// The status of a container whose current limits are the requested limits.
pub(super) fn status_of(
    record: &ContainerRecord,
    image: Option<&ImageRecord>,
) -> cri::ContainerStatus {
    let spec = &record.document.spec;
    let limits = spec.resources_stated.then(|| spec.resources.clone());
    status(&ContainerView { record, image, limits })
}
