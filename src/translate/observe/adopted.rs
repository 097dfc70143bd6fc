//! Makes documents for pods and containers that have no usable document: those of cri-dockerd, and dockbridge's own
//! with a label that is damaged or in the format of a newer dockbridge. The content of a document comes from the
//! labels, the name and the settings that the engine reports for the container. Ports, DNS, id mappings, command and
//! environment remain unknown: see [`SandboxDocument::is_adopted`].

use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    model::{
        container::{ContainerMetadata, ContainerSpec, Mount, Propagation},
        document::{ContainerDocument, SandboxDocument, VERSION},
        id::{ImageId, SandboxId},
        label,
        name::{self, ParsedName, bare},
        network::NetworkMode,
        oci_edits::RUNTIME,
        sandbox::{PidMode, PodMetadata, SandboxNamespaces, SandboxSecurity, SandboxSpec},
        security::ContainerSecurity,
    },
    translate::limits,
    wire::docker::{ContainerInspect, InspectHostConfig, InspectMount},
};

/// The document of a pause container. `None` if labels and name do not identify its pod.
pub(super) fn sandbox(inspect: &ContainerInspect) -> Option<SandboxDocument> {
    let host = &inspect.host_config;
    let mut labels = caller_labels(inspect);
    labels.remove(label::CONTAINER_NAME);
    let spec = SandboxSpec {
        metadata: pod_metadata(inspect)?,
        hostname: hostname(inspect),
        labels,
        annotations: annotations(inspect),
        cgroup_parent: host.cgroup_parent.clone(),
        namespaces: SandboxNamespaces {
            host_network: host.network_mode == "host",
            pid: if host.pid_mode == "host" { PidMode::Node } else { PidMode::Container },
            host_ipc: host.ipc_mode == "host",
            users: None,
        },
        sysctls: host.sysctls.clone(),
        security: SandboxSecurity { privileged: host.privileged, ..SandboxSecurity::default() },
        handler: handler(host),
        ..SandboxSpec::default()
    };
    let shim_group = host.annotations.get(label::OCI_SHIM_GROUP).cloned();
    let network = network_mode(host);
    Some(SandboxDocument { version: VERSION, spec, network, shim_group, is_adopted: true })
}

/// The document of a container. `None` if its name, pod or image is unknown.
pub(super) fn container(inspect: &ContainerInspect) -> Option<ContainerDocument> {
    let (config, host) = (&inspect.config, &inspect.host_config);
    let sandbox = sandbox_id(inspect)?;
    let image_id = ImageId::try_from(inspect.image.as_str()).ok()?;
    let (pid, pid_target) = pid_mode(host, &sandbox);
    let spec = ContainerSpec {
        metadata: container_metadata(inspect)?,
        image: config.image.clone(),
        mounts: mounts(&inspect.mounts),
        labels: caller_labels(inspect),
        annotations: annotations(inspect),
        log_path: log_path(inspect),
        stdin: config.open_stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        resources: limits::docker::observe(host),
        resources_stated: true,
        pid,
        pid_target,
        security: ContainerSecurity { privileged: host.privileged, ..ContainerSecurity::default() },
        ..ContainerSpec::default()
    };
    Some(ContainerDocument::new(spec, sandbox, image_id))
}

/// The identity of a container's pod, from kubelet's labels and the container's name.
fn pod_metadata(inspect: &ContainerInspect) -> Option<PodMetadata> {
    let named = name::parse(&inspect.name);
    let pod = PodMetadata {
        name: label_or(inspect, label::POD_NAME, named.as_ref().map(|n| &n.pod))?,
        namespace: label_or(inspect, label::POD_NAMESPACE, named.as_ref().map(|n| &n.namespace))?,
        uid: label_or(inspect, label::POD_UID, named.as_ref().map(|n| &n.uid))?,
        attempt: 0,
    };
    let attempt = attempt(inspect, label::SANDBOX_CONTAINER_NAME, &pod, named.as_ref());
    Some(PodMetadata { attempt, ..pod })
}

fn container_metadata(inspect: &ContainerInspect) -> Option<ContainerMetadata> {
    let named = name::parse(&inspect.name);
    let name =
        label_or(inspect, label::CONTAINER_NAME, named.as_ref().map(|named| &named.container))?;
    let attempt =
        pod_metadata(inspect).map_or(0, |pod| attempt(inspect, &name, &pod, named.as_ref()));
    Some(ContainerMetadata { name, attempt })
}

/// The value of a label, or otherwise `named`, a part of the container's name. `None` if both are missing or empty.
fn label_or(inspect: &ContainerInspect, key: &str, named: Option<&String>) -> Option<String> {
    let labelled = inspect.config.labels.get(key).filter(|value| !value.is_empty());
    labelled.or(named).filter(|value| !value.is_empty()).cloned()
}

/// Reads the number of the attempt from the name of the Docker container. Earlier parts of the name may contain
/// underscores.
fn attempt(
    inspect: &ContainerInspect,
    container: &str,
    pod: &PodMetadata,
    named: Option<&ParsedName>,
) -> u32 {
    let before = format!("k8s_{container}_{}_{}_{}_", pod.name, pod.namespace, pod.uid);
    let tail = bare(&inspect.name).strip_prefix(&before);
    let digits = tail.and_then(|tail| tail.split('_').next());
    digits.and_then(|digits| digits.parse().ok()).or(named.map(|n| n.attempt)).unwrap_or_default()
}

/// The container's labels up to [`LARGEST_METADATA`], without annotations and without the labels in [`INTERNAL`].
fn caller_labels(inspect: &ContainerInspect) -> BTreeMap<String, String> {
    let labels = inspect.config.labels.iter();
    let stated = labels
        .filter(|(key, _)| !INTERNAL.contains(&key.as_str()))
        .filter(|(key, _)| !key.starts_with(label::ANNOTATION_PREFIX));
    bounded(stated.map(|(key, value)| (key.as_str(), value)))
}

fn annotations(inspect: &ContainerInspect) -> BTreeMap<String, String> {
    let labels = inspect.config.labels.iter();
    bounded(
        labels
            .filter_map(|(key, value)| Some((key.strip_prefix(label::ANNOTATION_PREFIX)?, value))),
    )
}

/// Drops pairs beyond [`LARGEST_METADATA`]: an image's labels must not make a list too large for gRPC.
fn bounded<'a>(pairs: impl Iterator<Item = (&'a str, &'a String)>) -> BTreeMap<String, String> {
    let mut room = LARGEST_METADATA;
    let fitting = pairs.filter(|(key, value)| {
        let rest = room.checked_sub(key.len() + value.len());
        room = rest.unwrap_or(room);
        rest.is_some()
    });
    fitting.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// The requested host name. Empty if the host name is the engine's default (the container's short id), or if the
/// container uses the host's network.
fn hostname(inspect: &ContainerInspect) -> String {
    let hostname = &inspect.config.hostname;
    // Only the whole short id is the default: a requested host name, such as `a`, may also be the start of the id.
    let is_default = inspect.id.get(..SHORT_ID) == Some(hostname);
    if is_default || inspect.host_config.network_mode == "host" {
        String::new()
    } else {
        hostname.clone()
    }
}

fn network_mode(host: &InspectHostConfig) -> NetworkMode {
    match host.network_mode.as_str() {
        "host" => NetworkMode::Host,
        "none" => NetworkMode::Cni,
        _ => NetworkMode::Docker,
    }
}

/// The runtime handler. Empty for runc, the usual default, and for dockbridge-runtime, which runs runc.
fn handler(host: &InspectHostConfig) -> String {
    match host.runtime.as_str() {
        "runc" | "io.containerd.runc.v2" | RUNTIME => String::new(),
        other => other.to_owned(),
    }
}

fn sandbox_id(inspect: &ContainerInspect) -> Option<SandboxId> {
    let labelled = inspect.config.labels.get(label::SANDBOX_ID).map(String::as_str);
    let joined = inspect.host_config.network_mode.strip_prefix("container:");
    labelled.into_iter().chain(joined).find_map(|id| SandboxId::try_from(id).ok())
}

fn pid_mode(host: &InspectHostConfig, sandbox: &SandboxId) -> (PidMode, String) {
    match host.pid_mode.strip_prefix("container:") {
        Some(id) if id == sandbox.as_str() => (PidMode::Pod, String::new()),
        Some(id) => (PidMode::Target, id.to_owned()),
        None if host.pid_mode == "host" => (PidMode::Node, String::new()),
        None => (PidMode::Container, String::new()),
    }
}

/// The path of the CRI log. `None` if the label is missing, or is not the absolute path of a file: cri-dockerd may
/// write only a directory.
fn log_path(inspect: &ContainerInspect) -> Option<PathBuf> {
    let text = inspect.config.labels.get(label::LOG_PATH)?;
    let path = PathBuf::from(text);
    (path.is_absolute() && !text.ends_with('/')).then_some(path)
}

/// The bind mounts, sorted by target, because the engine's order changes from inspect to inspect.
fn mounts(mounts: &[InspectMount]) -> Vec<Mount> {
    let binds = mounts.iter().filter(|mount| mount.kind == "bind");
    let mut binds: Vec<Mount> = binds.map(mount).collect();
    binds.sort_by(|one, other| one.container_path.cmp(&other.container_path));
    binds
}

fn mount(mount: &InspectMount) -> Mount {
    Mount {
        container_path: mount.destination.clone(),
        host_path: mount.source.clone(),
        readonly: !mount.writable,
        propagation: match mount.propagation.as_str() {
            "rslave" | "slave" => Propagation::HostToContainer,
            "rshared" | "shared" => Propagation::Bidirectional,
            _ => Propagation::Private,
        },
        ..Mount::default()
    }
}

/// Labels that cri-dockerd or dockbridge adds for its own use.
const INTERNAL: &[&str] = &[
    label::TYPE,
    label::SANDBOX_ID,
    label::LOG_PATH,
    label::SANDBOX_DOCUMENT,
    label::CONTAINER_DOCUMENT,
];
/// Number of digits in the engine's short form of an id.
const SHORT_ID: usize = 12;
/// Maximum size in bytes of all labels together, and of all annotations together. Kubernetes has the same limit for
/// annotations.
const LARGEST_METADATA: usize = 256 << 10;
