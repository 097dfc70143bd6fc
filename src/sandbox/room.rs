//! What every pod verb works with.

use std::path::{Path, PathBuf};

use tokio::sync::OwnedRwLockWriteGuard;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::{adopt::Adopter, error::SandboxError};
use crate::{
    checkpoint::{directory::Checkpoints, record::SandboxCheckpoint},
    concurrency::{keyed_locks::KeyedLocks, single_flight::SingleFlight},
    container::room::Containers,
    engine::client::Engine,
    error::chain,
    host::file::Durability,
    image::images::Images,
    model::{
        attachment::{Attachment, PodNetwork},
        id::SandboxId,
        network::NetworkMode,
        record::SandboxRecord,
        sandbox::SandboxSpec,
    },
    network::service::Network,
    store::handle::Store,
};

/// The rooms a pod verb reaches into.
#[derive(Clone)]
pub struct SandboxRooms {
    /// dockerd.
    pub engine: Engine,
    /// What is true now.
    pub store: Store,
    /// What must survive.
    pub checkpoints: Checkpoints,
    /// CNI.
    pub network: Network,
    /// The pause image.
    pub images: Images,
    /// The pod's workloads.
    pub containers: Containers,
}

/// The pod verbs' hands. Clones share everything.
#[derive(Clone)]
pub struct Sandboxes {
    pub(super) rooms: SandboxRooms,
    /// Shared with the container verbs: pods by sandbox id. Pods being made are locked by name.
    pub(super) locks: KeyedLocks,
    /// How pods that do not use the host's network are connected.
    pub(super) mode: NetworkMode,
    /// Namespaces are pinned as `<this>/<sandbox id>`.
    pub(super) netns_dir: PathBuf,
    pub(super) adopter: Adopter,
    pub(super) running: SingleFlight<String, Result<SandboxId, SandboxError>>,
    pub(super) stopping: SingleFlight<SandboxId, Result<(), SandboxError>>,
    pub(super) removing: SingleFlight<SandboxId, Result<(), SandboxError>>,
}

impl Sandboxes {
    /// Verbs over `rooms`; pods off the host's network are connected by `mode`.
    pub fn new(
        rooms: SandboxRooms,
        locks: KeyedLocks,
        mode: NetworkMode,
        (run_dir, adopter): (&Path, Adopter),
        tracker: &TaskTracker,
    ) -> Self {
        Self {
            rooms,
            locks,
            mode,
            netns_dir: netns_dir(run_dir),
            adopter,
            running: SingleFlight::new(tracker.clone()),
            stopping: SingleFlight::new(tracker.clone()),
            removing: SingleFlight::new(tracker.clone()),
        }
    }

    /// The lock of a pod that is to be stopped; nothing that could take for ever holds it up.
    pub(super) async fn lock_to_stop(&self, id: &SandboxId) -> OwnedRwLockWriteGuard<()> {
        let cancellation = self.rooms.containers.cancellation(id);
        cancellation.cancel();
        self.locks.write(id.as_str()).await
    }

    /// Remembers how far a sandbox's connection has come, on disk first, then in the store.
    pub(super) async fn remember(
        &self,
        sandbox: &SandboxRecord,
        attachment: Attachment,
        durability: Durability,
    ) -> Result<(), SandboxError> {
        let checkpoint = checkpoint(sandbox, attachment);
        self.rooms.checkpoints.save(&checkpoint, durability).await?;
        self.rooms.store.put_checkpoint(checkpoint).await;
        Ok(())
    }

    /// Remembers how far a sandbox's connection has come where a disk that cannot be written must not
    /// hold up the caller.
    pub(super) async fn remember_if_possible(
        &self,
        sandbox: &SandboxRecord,
        attachment: Attachment,
    ) {
        let checkpoint = checkpoint(sandbox, attachment);
        if let Err(error) = self.rooms.checkpoints.save(&checkpoint, Durability::Written).await {
            let error = chain(&error);
            warn!(sandbox = %sandbox.id, error, "cannot write the network checkpoint of a pod; retrying");
        }
        self.rooms.store.put_checkpoint(checkpoint).await;
    }

    /// Forgets all we keep of a sandbox, on disk first, then in the store.
    pub(super) async fn forget(&self, id: &SandboxId) -> Result<(), SandboxError> {
        self.rooms.containers.files().remove(id).await?;
        self.rooms.checkpoints.remove(id).await?;
        self.rooms.store.forget_checkpoint(id).await;
        Ok(())
    }
}

/// What is to be remembered of a sandbox whose connection has come so far.
pub(super) fn checkpoint(sandbox: &SandboxRecord, attachment: Attachment) -> SandboxCheckpoint {
    SandboxCheckpoint {
        id: sandbox.id.clone(),
        name: sandbox.name.clone(),
        document: (*sandbox.document).clone(),
        created_at: sandbox.created_at,
        attachment: Some(attachment),
    }
}

/// What the network needs to know of a pod.
pub(super) fn pod_network(id: &SandboxId, spec: &SandboxSpec, netns_dir: &Path) -> PodNetwork {
    PodNetwork {
        id: id.clone(),
        metadata: spec.metadata.clone(),
        netns: netns_dir.join(id.as_str()),
        ports: spec.ports.clone(),
        dns: spec.dns.clone(),
        annotations: spec.annotations.clone(),
        cgroup_parent: spec.cgroup_parent.clone(),
    }
}

/// Where namespaces are pinned.
pub(super) fn netns_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("netns")
}
