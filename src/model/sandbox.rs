//! `PodSandboxConfig` of CRI, validated and in our own types.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    network::{DnsConfig, PortMapping},
    resources::Resources,
    security::{Identity, Profile, SelinuxLabel},
    user_namespace::IdMappings,
};

/// `PodSandboxMetadata` of CRI: a sandbox's identity from kubelet. Name, namespace and uid are never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodMetadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// kubelet's number of the attempt to create a sandbox for this pod; the first attempt is 0.
    pub attempt: u32,
}

/// The request of RunPodSandbox; for an adopted pod, what dockbridge can find out. dockbridge stores the request in a
/// label of a new pause container and, if CNI plugins connect the pod, in the pod's checkpoint file. The JSON of this
/// type is a durable format: a new field must have a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSpec {
    pub metadata: PodMetadata,
    /// The requested host name; empty means the engine's choice.
    pub hostname: String,
    /// Directory of the pod's container logs, absolute.
    pub log_directory: Option<PathBuf>,
    /// DNS settings of the pod; `None` if the request has none, or if the settings of an adopted pod are unknown.
    pub dns: Option<DnsConfig>,
    pub ports: Vec<PortMapping>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup, as the request names it. Empty means the engine's default cgroup.
    pub cgroup_parent: String,
    pub namespaces: SandboxNamespaces,
    pub sysctls: BTreeMap<String, String>,
    pub security: SandboxSecurity,
    /// Resources of the pod in addition to its containers (informational).
    pub overhead: Option<Resources>,
    /// Sum of the containers' resources (informational).
    pub resources: Option<Resources>,
    /// The requested runtime handler; empty means the engine's default runtime.
    pub handler: String,
}

/// The namespaces that the pod shares with the host or among its containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxNamespaces {
    pub host_network: bool,
    pub pid: PidMode,
    pub host_ipc: bool,
    /// The pod's user namespace. `None` means that the pod has the same user ids as the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<IdMappings>,
}

/// The processes that a container can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidMode {
    /// The container sees the processes of all containers in the pod.
    #[default]
    Pod,
    Container,
    Node,
    /// The container sees the processes of one other container. Only a container's spec has this mode.
    Target,
}

/// Security settings of the pause container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSecurity {
    pub identity: Identity,
    /// Whether the pause container is privileged, because the request says that the pod may have privileged containers.
    pub privileged: bool,
    pub readonly_rootfs: bool,
    pub seccomp: Option<Profile>,
    pub apparmor: Option<Profile>,
    pub selinux: Option<SelinuxLabel>,
}

/// A handler name that, like the empty one, means the engine's default runtime. RuntimeClasses for cri-dockerd use it.
pub const DEFAULT_HANDLER: &str = "docker";
