//! State that RunPodSandbox, StopPodSandbox, RemovePodSandbox and other calls for pods share.

use std::sync::Arc;

use tokio::sync::OwnedRwLockWriteGuard;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::{adopt::Adopter, pod_network::checkpoint};
use crate::{
    checkpoint::directory::Checkpoints,
    concurrency::single_flight::SingleFlight,
    container::{limits::service::Limits, node::Node, service::Containers},
    error::{Failure, chain},
    host::{file::Durability, netns::PinDirectories},
    image::service::Images,
    model::{
        attachment::Attachment, id::SandboxId, network::NetworkMode, record::SandboxRecord,
        restore::RestoredPod,
    },
    network::service::Network,
};

/// Services of other modules that the calls for pods use.
#[derive(Clone)]
pub struct SandboxDependencies {
    pub node: Arc<Node>,
    pub checkpoints: Checkpoints,
    pub network: Network,
    pub images: Images,
    pub limits: Limits,
    pub containers: Containers,
}

/// Runs, restores, stops and removes the pods of this node. Clones share all state.
#[derive(Clone)]
pub struct Sandboxes {
    pub(super) deps: SandboxDependencies,
    pub(super) mode: NetworkMode,
    pub(super) pins: PinDirectories,
    pub(super) adopter: Adopter,
    pub(super) running: SingleFlight<String, Result<SandboxId, Failure>>,
    pub(super) restoring: SingleFlight<String, Result<RestoredPod, Failure>>,
    pub(super) stopping: SingleFlight<SandboxId, Result<(), Failure>>,
    pub(super) removing: SingleFlight<SandboxId, Result<(), Failure>>,
}

impl Sandboxes {
    /// `mode` says how dockbridge connects pods that do not use the host's network.
    pub fn new(
        deps: SandboxDependencies,
        mode: NetworkMode,
        (pins, adopter): (PinDirectories, Adopter),
        tracker: &TaskTracker,
    ) -> Self {
        Self {
            deps,
            mode,
            pins,
            adopter,
            running: SingleFlight::new(tracker.clone()),
            restoring: SingleFlight::new(tracker.clone()),
            stopping: SingleFlight::new(tracker.clone()),
            removing: SingleFlight::new(tracker.clone()),
        }
    }

    /// Locks a pod to stop it. First cancels work without a deadline that dockbridge does for the pod, such as
    /// relabelling a volume, because this work would hold the lock.
    pub(super) async fn lock_to_stop(&self, id: &SandboxId) -> OwnedRwLockWriteGuard<()> {
        let cancellation = self.deps.node.cancellations.of(id.as_str());
        cancellation.cancel();
        self.deps.node.locks.write(id.as_str()).await
    }

    /// Saves the network state of a sandbox, first on disk, then in the store.
    pub(super) async fn save_attachment(
        &self,
        sandbox: &SandboxRecord,
        attachment: Attachment,
        durability: Durability,
    ) -> Result<(), Failure> {
        let checkpoint = checkpoint(sandbox, attachment);
        self.deps.checkpoints.save(&checkpoint, durability).await?;
        self.deps.node.store.put_checkpoint(checkpoint).await;
        Ok(())
    }

    /// As [`Self::save_attachment`] without a sync. After a failed write, logs a warning and still changes the store.
    pub(super) async fn try_save_attachment(
        &self,
        sandbox: &SandboxRecord,
        attachment: Attachment,
    ) {
        let checkpoint = checkpoint(sandbox, attachment);
        if let Err(error) = self.deps.checkpoints.save(&checkpoint, Durability::Written).await {
            warn!(sandbox = %sandbox.id, error = chain(&error), "cannot write the checkpoint file of a pod; continuing");
        }
        self.deps.node.store.put_checkpoint(checkpoint).await;
    }

    /// Removes a sandbox's pod files and its checkpoint file, and then the copy of the checkpoint file in the store.
    pub(super) async fn forget(&self, id: &SandboxId) -> Result<(), Failure> {
        self.deps.node.pod_files.remove(id).await?;
        self.deps.checkpoints.remove(id).await?;
        self.deps.node.store.forget_checkpoint(id).await;
        Ok(())
    }
}

/// Combines the failures of independent steps into one failure, with the kind of the first failure.
pub(super) fn gather(steps: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let causes: Vec<Failure> = steps.into_iter().filter_map(Result::err).collect();
    let Some(first) = causes.first() else { return Ok(()) };
    let texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    Err(Failure::new(first.kind(), texts.join("; ")))
}
