//! Where a sandbox's ports can be reached. No I/O.

use std::path::PathBuf;

use crate::model::{attachment::Attachment, network::NetworkMode, record::SandboxRecord};

/// The network namespace to connect in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodNetwork {
    Host,
    /// The namespace pinned at this path. The pin outlives the pod's processes.
    Pinned(PathBuf),
    /// The namespace of a process, if it still belongs to this container. The pid may have been reused.
    OfProcess {
        pid: u32,
        container: String,
    },
}

impl PodNetwork {
    /// The sandbox's network. None if it has none, or no longer has one.
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
