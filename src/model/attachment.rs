//! How a pod is connected to its network, and what a DEL has to release. An attachment is stored in a checkpoint file.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    id::SandboxId,
    network::{DnsConfig, PortMapping},
    sandbox::PodMetadata,
    time::Nanos,
};

/// The properties of a pod that the `network` module needs to connect or disconnect the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodNetwork {
    /// The id of the sandbox, passed to plugins as `CNI_CONTAINERID`.
    pub id: SandboxId,
    /// The pod's name, namespace and UID, passed to plugins in `CNI_ARGS` as `K8S_POD_*`.
    pub metadata: PodMetadata,
    /// The path at which the network namespace is pinned, passed to plugins as `CNI_NETNS` while the namespace exists.
    pub netns: PathBuf,
    pub ports: Vec<PortMapping>,
    /// The pod's DNS settings, for plugins that support them.
    pub dns: Option<DnsConfig>,
    /// The pod's annotations, for bandwidth limits and for the CNI capability of pod annotations.
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup, for plugins that support it.
    pub cgroup_parent: String,
}

/// The state of a pod's connection to its network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Attachment {
    /// Plugins may have been called with ADD, so a DEL is needed to release what they have allocated.
    Adding(CniAttachment),
    /// ADD succeeded in dockbridge or an earlier runtime, or dockbridge found the addresses in the pod's namespace.
    Ready {
        /// Checkpoint files have this field under the name `intent`, as in dockbridge 0.1.
        #[serde(rename = "intent")]
        cni: CniAttachment,
        addresses: Vec<IpAddr>,
        /// The CNI result that the last plugin printed. If dockbridge found the addresses of an adopted pod in
        /// the pod's namespace, dockbridge made this result from them.
        result: serde_json::Value,
        /// The start time of the pause process whose network is connected. None if unknown, as after an adoption.
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Nanos>,
    },
    /// The pod needs no further DEL from its stop or removal. DEL succeeded, or DEL failed after the namespace
    /// was gone and dockbridge repeats it later.
    Released,
}

/// The data that a DEL needs. Recorded before the first ADD, or when dockbridge adopts the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniAttachment {
    pub pod: PodNetwork,
    pub network: String,
    pub interface: String,
    /// The configuration list for ADD and DEL (JSON text), so that DEL works without the file in the CNI directory.
    pub config: String,
    /// The pod CIDRs for the capability `ipRanges`. Empty if they are unknown.
    #[serde(default)]
    pub pod_cidrs: Vec<String>,
    /// The CNI capabilities that another runtime has passed at ADD. If None, they follow from `pod` and `pod_cidrs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Attachment {
    /// The addresses of the pod, the primary address first; empty if the pod is not connected.
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Ready { addresses, .. } => addresses,
            Self::Adding(_) | Self::Released => &[],
        }
    }

    /// The data that a DEL needs. None if the attachment is [`Self::Released`].
    pub const fn cni(&self) -> Option<&CniAttachment> {
        match self {
            Self::Adding(cni) | Self::Ready { cni, .. } => Some(cni),
            Self::Released => None,
        }
    }
}

/// Whether pods can be connected now: CRI's `NetworkReady` condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    pub ready: bool,
    /// The reason as a CamelCase word; may be empty if the network is ready.
    pub reason: String,
    /// For the operator: why pods cannot be connected, or the CNI network of pods. Empty if pods do not use CNI.
    pub message: String,
}
