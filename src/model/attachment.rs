//! How a pod is connected to its network, and what has to be released. This is stored in the checkpoint.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    id::SandboxId,
    network::{DnsConfig, PortMapping},
    sandbox::PodMetadata,
    time::Nanos,
};

/// What the `network` module needs to know about a pod to connect or disconnect it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodNetwork {
    /// The sandbox (`CNI_CONTAINERID`).
    pub id: SandboxId,
    /// The pod's identity, passed to plugins as `K8S_POD_*`.
    pub metadata: PodMetadata,
    /// Where the network namespace is pinned (`CNI_NETNS`).
    pub netns: PathBuf,
    pub ports: Vec<PortMapping>,
    /// DNS settings, for plugins that support them.
    pub dns: Option<DnsConfig>,
    /// Pod annotations, for bandwidth limits and the pod-annotations capability.
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup, for plugins that support it.
    pub cgroup_parent: String,
}

/// The state of a pod's connection. It is stored before each step that could leak a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Attachment {
    /// Plugins may have been called. Only a DEL ensures that nothing leaks.
    Adding(AttachmentIntent),
    /// The plugins succeeded. The pod has these addresses.
    Ready {
        intent: AttachmentIntent,
        /// Addresses of the pod's interface, primary first.
        addresses: Vec<IpAddr>,
        /// The result that the last plugin printed.
        result: serde_json::Value,
        /// Start time of the process that owns the namespace, if it was recorded.
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Nanos>,
    },
    /// DEL succeeded; nothing is left to release.
    Released,
}

/// Everything that DEL needs, recorded before the first ADD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentIntent {
    pub pod: PodNetwork,
    pub network: String,
    /// Name of the interface in the pod.
    pub interface: String,
    /// The network's configuration list as it was loaded (JSON text), so that DEL works after the file was
    /// removed.
    pub config: String,
    /// Pod CIDRs known at the time, for the `ipRanges` capability.
    #[serde(default)]
    pub pod_cidrs: Vec<String>,
    /// Capability values that another runtime passed to the plugins. If none, they are made from `pod`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Attachment {
    /// Addresses of a connected pod, primary first; empty otherwise.
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Ready { addresses, .. } => addresses,
            Self::Adding(_) | Self::Released => &[],
        }
    }

    /// What DEL needs, unless there is nothing left to release.
    pub const fn intent(&self) -> Option<&AttachmentIntent> {
        match self {
            Self::Adding(intent) | Self::Ready { intent, .. } => Some(intent),
            Self::Released => None,
        }
    }
}

/// Whether pods can be connected now: CRI's `NetworkReady` condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatus {
    pub ready: bool,
    /// The reason as a CamelCase word; may be empty when ready.
    pub reason: String,
    /// Why pods cannot be connected, for the operator.
    pub message: String,
}
