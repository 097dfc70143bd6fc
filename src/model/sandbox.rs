//! `PodSandboxConfig` of CRI, checked and free of wire types.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    network::{DnsConfig, PortMapping},
    resources::Resources,
    security::{Identity, Profile, SelinuxLabel},
    user_namespace::IdMappings,
};

/// `PodSandboxMetadata` of CRI: the identity kubelet gives a sandbox.
///
/// Name, namespace and uid are never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodMetadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// Which attempt at a sandbox for this pod, from 0.
    pub attempt: u32,
}

/// The request of RunPodSandbox. The whole request is stored in a label of the pause container and in the
/// checkpoint. Its serde form is a durable format: add fields with defaults only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSpec {
    pub metadata: PodMetadata,
    /// Host name inside the pod; empty means the engine's choice.
    pub hostname: String,
    /// Directory of the pod's container logs, absolute.
    pub log_directory: Option<PathBuf>,
    /// DNS settings; none keeps the host's.
    pub dns: Option<DnsConfig>,
    pub ports: Vec<PortMapping>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup as in the request; empty means the engine's default.
    pub cgroup_parent: String,
    pub namespaces: SandboxNamespaces,
    pub sysctls: BTreeMap<String, String>,
    pub security: SandboxSecurity,
    /// Resources of the pod in addition to its containers (informational).
    pub overhead: Option<Resources>,
    /// Sum of the containers' resources (informational).
    pub resources: Option<Resources>,
    /// The requested runtime handler; empty means default.
    pub handler: String,
}

/// Which namespaces the sandbox shares with the host, and the default modes of its containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxNamespaces {
    /// The pod uses the host's network namespace.
    pub host_network: bool,
    pub pid: PidMode,
    /// The pod uses the host's IPC namespace.
    pub host_ipc: bool,
    /// The pod's user namespace; none means the host's users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<IdMappings>,
}

/// Whose processes a container can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidMode {
    /// The processes of all containers in the pod.
    #[default]
    Pod,
    /// Only its own.
    Container,
    Node,
    /// The processes of another container (only in a container's spec).
    Target,
}

/// Confinement of the pause container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSecurity {
    pub identity: Identity,
    /// Some container of the pod is privileged.
    pub privileged: bool,
    pub readonly_rootfs: bool,
    pub seccomp: Option<Profile>,
    pub apparmor: Option<Profile>,
    pub selinux: Option<SelinuxLabel>,
    /// The request is unknown, because another program created the pod or its label is damaged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// A runtime handler name that means the default, as the empty name does. RuntimeClasses for cri-dockerd
/// use it.
pub const DEFAULT_HANDLER: &str = "docker";
