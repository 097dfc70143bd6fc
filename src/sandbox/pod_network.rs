//! Converts a pod's data for CNI and for the checkpoint file. No I/O.

use std::path::PathBuf;

use crate::{
    checkpoint::record::SandboxCheckpoint,
    model::{
        attachment::{Attachment, PodNetwork},
        id::SandboxId,
        record::SandboxRecord,
        sandbox::SandboxSpec,
    },
};

/// The content of the checkpoint file of a sandbox with this network attachment.
pub(super) fn checkpoint(sandbox: &SandboxRecord, attachment: Attachment) -> SandboxCheckpoint {
    SandboxCheckpoint {
        id: sandbox.id.clone(),
        name: sandbox.name.clone(),
        document: (*sandbox.document).clone(),
        created_at: sandbox.created_at,
        attachment: Some(attachment),
    }
}

/// The data of a pod that CNI plugins need.
pub(super) fn pod_network(id: &SandboxId, spec: &SandboxSpec, pin: PathBuf) -> PodNetwork {
    PodNetwork {
        id: id.clone(),
        metadata: spec.metadata.clone(),
        netns: pin,
        ports: spec.ports.clone(),
        dns: spec.dns.clone(),
        annotations: spec.annotations.clone(),
        cgroup_parent: spec.cgroup_parent.clone(),
    }
}
