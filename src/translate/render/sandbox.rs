//! Renders sandboxes as CRI messages.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::json;

use super::{time, verbose};
use crate::{
    model::{
        attachment::Attachment,
        engine::EngineInfo,
        network::NetworkMode,
        record::{SandboxRecord, SandboxState},
        resources::PodResources,
        sandbox::{PidMode, PodMetadata},
        user_namespace::{IdMapping, IdMappings},
    },
    wire::cri,
};

/// Renders a PodSandboxStatus.
pub fn status(record: &SandboxRecord) -> cri::PodSandboxStatus {
    let spec = &record.document.spec;
    cri::PodSandboxStatus {
        id: record.id.to_string(),
        metadata: Some(metadata(&spec.metadata)),
        state: state(record).into(),
        created_at: time::created_at(record.created_at),
        network: Some(network(record)),
        linux: Some(namespaces(record)),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        runtime_handler: spec.handler.clone(),
    }
}

/// Renders an item of ListPodSandbox. A field that [`status`] also has must have the same value there.
pub fn item(record: &SandboxRecord) -> cri::PodSandbox {
    let spec = &record.document.spec;
    cri::PodSandbox {
        id: record.id.to_string(),
        metadata: Some(metadata(&spec.metadata)),
        state: state(record).into(),
        created_at: time::created_at(record.created_at),
        labels: spec.labels.clone(),
        annotations: spec.annotations.clone(),
        runtime_handler: spec.handler.clone(),
    }
}

/// The additional content of a verbose status, for people (`crictl inspectp`) and for tools that read the pid.
pub fn info(
    record: &SandboxRecord,
    engine: Option<&EngineInfo>,
    resources: &PodResources,
) -> BTreeMap<String, String> {
    let document = &record.document;
    let handler = document.spec.handler.as_str();
    let runtime = engine.map(|engine| engine.runtime_of(handler));
    let (netns, result) = match &record.attachment {
        Some(Attachment::Ready { cni, result, .. }) => (Some(&cni.pod.netns), Some(result)),
        Some(Attachment::Adding(cni)) => (Some(&cni.pod.netns), None),
        Some(Attachment::Released) | None => (None, None),
    };
    verbose::info(&json!({
        "pid": record.pid().unwrap_or(0),
        "name": record.name,
        "netns": netns,
        "networkMode": document.network,
        "networkResult": result,
        "runtimeHandler": handler,
        "runtime": runtime,
        "shimGroup": document.shim_group,
        "resources": verbose::json_or_null(resources),
        "config": verbose::json_or_null(&document.spec),
    }))
}

pub(super) fn metadata(given: &PodMetadata) -> cri::PodSandboxMetadata {
    cri::PodSandboxMetadata {
        name: given.name.clone(),
        uid: given.uid.clone(),
        namespace: given.namespace.clone(),
        attempt: given.attempt,
    }
}

pub(super) fn state(record: &SandboxRecord) -> cri::PodSandboxState {
    match record.state() {
        SandboxState::Ready => cri::PodSandboxState::SandboxReady,
        SandboxState::NotReady => cri::PodSandboxState::SandboxNotready,
    }
}

/// Renders a pod's addresses if the pod is ready, and none otherwise, because another pod may have them by then.
fn network(record: &SandboxRecord) -> cri::PodSandboxNetworkStatus {
    let addresses = match record.state() {
        SandboxState::Ready => record.addresses(),
        SandboxState::NotReady => &[],
    };
    let mut texts = addresses.iter().map(IpAddr::to_string);
    cri::PodSandboxNetworkStatus {
        ip: texts.next().unwrap_or_default(),
        additional_ips: texts.map(|ip| cri::PodIp { ip }).collect(),
    }
}

/// Renders a pod's namespaces. kubelet recreates the sandbox if the network mode does not match `hostNetwork`.
fn namespaces(record: &SandboxRecord) -> cri::LinuxPodSandboxStatus {
    let document = &record.document;
    let host_or_pod = |host| match host {
        true => cri::NamespaceMode::Node,
        false => cri::NamespaceMode::Pod,
    };
    let options = cri::NamespaceOption {
        network: host_or_pod(document.network == NetworkMode::Host).into(),
        pid: pid(document.spec.namespaces.pid).into(),
        ipc: host_or_pod(document.spec.namespaces.host_ipc).into(),
        target_id: String::new(),
        userns_options: userns_options(document.spec.namespaces.users),
    };
    cri::LinuxPodSandboxStatus { namespaces: Some(cri::Namespace { options: Some(options) }) }
}

fn pid(mode: PidMode) -> cri::NamespaceMode {
    match mode {
        PidMode::Pod => cri::NamespaceMode::Pod,
        PidMode::Container => cri::NamespaceMode::Container,
        PidMode::Node => cri::NamespaceMode::Node,
        PidMode::Target => cri::NamespaceMode::Target,
    }
}

/// Renders the id mappings of a pod. `None` if the pod uses the host's ids.
fn userns_options(users: Option<IdMappings>) -> Option<cri::UserNamespace> {
    users.map(|ids| cri::UserNamespace {
        mode: cri::NamespaceMode::Pod.into(),
        uids: vec![id_range(ids.uids)],
        gids: vec![id_range(ids.gids)],
    })
}

pub(super) const fn id_range(ids: IdMapping) -> cri::IdMapping {
    cri::IdMapping { host_id: ids.host, container_id: 0, length: ids.length }
}
