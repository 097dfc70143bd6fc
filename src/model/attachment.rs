//! How a pod is connected to its network, and what a DEL has to release. Stored in the state directory.

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
    /// The pod's name, namespace and UID, passed to plugins as `K8S_POD_*`.
    pub metadata: PodMetadata,
    /// The path at which the network namespace is pinned, passed to plugins as `CNI_NETNS`.
    pub netns: PathBuf,
    pub ports: Vec<PortMapping>,
    /// The pod's DNS settings, for plugins that support them.
    pub dns: Option<DnsConfig>,
    /// The pod's annotations, for bandwidth limits and for the CNI capability of pod annotations.
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup, for plugins that support it.
    pub cgroup_parent: String,
}

/// The state of a pod's connection to its network. It is stored before each step that could leak a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Attachment {
    /// Plugins may have been called with ADD, so a DEL is needed to release what they have allocated.
    Adding(CniAttachment),
    /// The plugins' ADD succeeded, and the pod has addresses.
    Ready {
        /// dockbridge 0.1 wrote this field with the name `intent`.
        #[serde(rename = "intent")]
        cni: CniAttachment,
        addresses: Vec<IpAddr>,
        /// The CNI result that the last plugin printed.
        result: serde_json::Value,
        /// The recorded start time of the pause container's process, which owns the network namespace.
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Nanos>,
    },
    /// The plugins' DEL succeeded, and nothing is left to release.
    Released,
}

/// Everything that a DEL needs, recorded before the first ADD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CniAttachment {
    pub pod: PodNetwork,
    pub network: String,
    pub interface: String,
    /// The configuration list as it was loaded (JSON text), so that DEL works without the file.
    pub config: String,
    /// The pod CIDRs that were known at the time of the ADD, for the capability `ipRanges`.
    #[serde(default)]
    pub pod_cidrs: Vec<String>,
    /// The capabilities that another runtime has passed. If None, they are computed from `pod`.
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

    /// The data that a DEL needs. None if nothing is left to release.
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
    /// Why pods cannot be connected, for the operator.
    pub message: String,
}
