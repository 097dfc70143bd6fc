//! RestorePod: creates a pod and containers that will start from the archives of CheckpointPod.

use std::collections::BTreeSet;

use tracing::info;

use super::service::{Sandboxes, gather};
use crate::{
    error::{Failure, shortened},
    model::{
        container::ContainerMetadata,
        id::{ContainerId, SandboxId},
        name::sandbox_name,
        restore::{PodRestoreSpec, RestoredPod},
    },
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
};

impl Sandboxes {
    /// Runs a sandbox and creates the containers of a pod checkpoint in it. The caller must start the containers.
    /// Until a container is started, a repeated call returns the same sandbox and containers.
    ///
    /// # Errors
    /// The errors of RunPodSandbox and CreateContainer. Also fails if the pod checkpoint is not in `restore-dir`, or if
    /// its containers are not those of the request. A failed call removes the containers that it has created, and a pod
    /// that it has created, unless the pod has other containers.
    pub async fn restore(&self, spec: PodRestoreSpec) -> Result<RestoredPod, Failure> {
        let key = serde_json::to_string(&spec).unwrap_or_default();
        let service = self.clone();
        self.restoring.run(key, async move { service.restore_checked(spec).await }).await?
    }

    async fn restore_checked(&self, spec: PodRestoreSpec) -> Result<RestoredPod, Failure> {
        let names = self.deps.node.checkpointed_containers(&spec.checkpoint).await?;
        let wanted = spec.containers.iter().map(|container| &container.metadata.name);
        if names.iter().collect::<BTreeSet<_>>() != wanted.collect() {
            let text = "container_configs: must be the containers of the pod checkpoint";
            // Another person may have written these names, so the error quotes only ten of them.
            let text = format!("{text}: {:?}", names.iter().take(10).collect::<Vec<_>>());
            return Err(Failure::invalid(shortened(text)));
        }
        // The lock is held until the end, so that no other call creates this pod or restores its containers.
        let _held = self.deps.node.locks.write(&sandbox_name(&spec.sandbox.metadata)).await;
        let before = self.deps.node.store.synced(SYNC_TIMEOUT).await?;
        let dns = spec.sandbox.dns.clone();
        let wanted: Vec<_> = spec.containers.iter().map(|it| it.metadata.clone()).collect();
        let id = self.run_locked(spec.sandbox).await?;
        let mut made = Vec::new();
        for container in spec.containers {
            let name = container.metadata.name.clone();
            match self.deps.containers.create(id.as_str(), container, dns.clone()).await {
                Ok(container) => made.push((name, container)),
                Err(cause) => {
                    return Err(self.take_back(&before, (id, &wanted), made, cause).await);
                }
            }
        }
        info!(sandbox = %id, checkpoint = %spec.checkpoint.display(), "pod restored");
        Ok(RestoredPod { sandbox: id, containers: made })
    }

    /// Undo of [`Self::restore`]. Returns the call's error.
    async fn take_back(
        &self,
        before: &Snapshot,
        (id, wanted): (SandboxId, &[ContainerMetadata]),
        made: Vec<(String, ContainerId)>,
        cause: Failure,
    ) -> Failure {
        let mut removed = Vec::new();
        let now = self.deps.node.store.snapshot();
        // Compares names, because Docker may have created a container although the call to create it failed.
        let mut named = now.containers_of(&id).map(|it| &it.document.spec.metadata);
        let has_others = named.any(|name| !wanted.contains(name));
        if before.sandbox(id.as_str()).is_none() && !has_others {
            removed.push(self.remove(id.as_str()).await);
        } else {
            let new = made.iter().filter(|(_, it)| before.container(it.as_str()).is_none());
            for (_, container) in new {
                removed.push(self.deps.containers.remove(container.as_str()).await);
            }
        }
        match gather(removed) {
            Ok(()) => cause,
            Err(left) => {
                Failure::new(cause.kind(), format!("{cause} (and cleanup failed: {left})"))
            }
        }
    }
}
