//! How a pod is connected to its network, and what has to be released. Stored in the checkpoint.

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
    /// DNS set-up, for plugins that take it.
    pub dns: Option<DnsConfig>,
    /// Pod annotations (bandwidth, and the pod-annotations capability).
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup, for plugins that take it.
    pub cgroup_parent: String,
}

/// The state of a pod's connection. It is stored before each step that could leak something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Attachment {
    /// Plugins may have been called; only DEL makes it safe to forget.
    Adding(AttachmentIntent),
    /// Plugins answered; the pod has these addresses.
    Ready {
        intent: AttachmentIntent,
        /// Addresses of the pod's interface, primary first.
        addresses: Vec<IpAddr>,
        /// The last plugin's result, as it printed it.
        result: serde_json::Value,
        /// When the process that owns the namespace was started; none where it was not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Nanos>,
    },
    /// DEL succeeded; nothing is left to release.
    Released,
}

/// All that DEL needs, recorded before the first ADD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentIntent {
    /// The pod as the plugins see it.
    pub pod: PodNetwork,
    pub network: String,
    /// Name of the interface in the pod.
    pub interface: String,
    /// The network's configuration list as it was loaded (JSON text), so that DEL works after
    /// the file has gone.
    pub config: String,
    /// Pod CIDRs known at the time, for the `ipRanges` capability.
    #[serde(default)]
    pub pod_cidrs: Vec<String>,
    /// Values of capabilities that another runtime passed to plugins; none when they follow from
    /// `pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// New pods can be connected.
    pub ready: bool,
    /// The reason as a CamelCase word; may be empty when ready.
    pub reason: String,
    /// Why not, for the operator.
    pub message: String,
}
