//! RemovePodSandbox: removes containers, network, pause container and files.

use std::sync::Arc;

use tracing::{info, warn};

use super::service::{Sandboxes, gather};
use crate::{error::Failure, model::id::SandboxId};

impl Sandboxes {
    /// Removes a sandbox and all its containers, even running ones. Also succeeds for an unknown sandbox.
    /// Returns when the store no longer shows the sandbox.
    ///
    /// # Errors
    /// All failures to remove containers, or the failure of another step. A repeated call continues the removal.
    pub async fn remove(&self, id: &str) -> Result<(), Failure> {
        let Some(id) = self.resolve(id).await? else { return Ok(()) };
        let service = self.clone();
        self.removing.run(id.clone(), async move { service.remove_locked(&id).await }).await?
    }

    async fn remove_locked(&self, id: &SandboxId) -> Result<(), Failure> {
        let _held = self.lock_to_stop(id).await;
        let sandbox = self.deps.node.store.snapshot().sandbox(id.as_str()).map(Arc::clone);
        if let Some(sandbox) = &sandbox {
            self.ensure_pinned(sandbox).await?;
        }
        self.remove_workloads(id).await?;
        // The stop before a removal usually disconnects the pod, but might not have finished.
        if let Some(sandbox) = &sandbox {
            self.disconnect(sandbox).await?;
        } else {
            self.release_unknown(id).await?;
        }
        self.discard(id.as_str()).await?;
        self.forget(id).await?;
        self.deps.node.saved_changes.remove_gone(&self.deps.node.store).await;
        self.deps.node.nri.remove_pod(id.as_str()).await;
        info!(sandbox = %id, "pod sandbox removed");
        Ok(())
    }

    async fn remove_workloads(&self, id: &SandboxId) -> Result<(), Failure> {
        let snapshot = self.deps.node.store.snapshot();
        for container in snapshot.joined_to(id) {
            warn!(sandbox = %id, container, "a container outside the pod has joined the pod's network namespace; removing the pod and its network, but not this container");
        }
        let removals = snapshot
            .containers_of(id)
            .map(|container| self.deps.containers.remove(container.id.as_str()));
        gather(futures_util::future::join_all(removals).await)
    }
}
