//! Where a sandbox's ports are. Pure.

use std::path::PathBuf;

use crate::model::{attachment::Attachment, network::NetworkMode, record::SandboxRecord};

/// A network to connect in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodNetwork {
    Host,
    /// The namespace pinned at a path. The pin outlives the pod's processes.
    Pinned(PathBuf),
    /// The namespace of a process, as long as it is in this container: a pid may be another's
    /// meanwhile.
    OfProcess {
        /// As it was.
        pid: u32,
        /// Full id of the sandbox's container.
        container: String,
    },
}

impl PodNetwork {
    /// The sandbox's network; none when it has none, or none any more.
    pub(super) fn of(sandbox: &SandboxRecord) -> Option<Self> {
        match sandbox.document.network {
            NetworkMode::Host => Some(Self::Host),
            NetworkMode::Cni => {
                let intent = sandbox.attachment.as_ref().and_then(Attachment::intent)?;
                Some(Self::Pinned(intent.pod.netns.clone()))
            }
            NetworkMode::Docker => {
                let container = sandbox.id.as_str().to_owned();
                Some(Self::OfProcess { pid: sandbox.pid()?, container })
            }
        }
    }
}
