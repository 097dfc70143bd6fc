//! UpdatePodSandboxResources: kubelet tells what it is about to hold a pod to. The pod's cgroup is
//! kubelet's, so nothing is done; a refusal would keep it from resizing the pod.

use tracing::info;

use super::{error::SandboxError, service::Sandboxes};
use crate::{
    model::{id::SandboxId, record::SandboxRecord, resources::PodResources},
    store::settings::SYNC_TIMEOUT,
};

impl Sandboxes {
    /// Remembers what a pod is to be held to, over restarts.
    ///
    /// # Errors
    /// The sandbox is unknown, or the disk refuses.
    pub async fn resize(&self, id: &str, newer: PodResources) -> Result<(), SandboxError> {
        let now = self.deps.store.synced(SYNC_TIMEOUT).await?;
        let missing = || SandboxError::NotFound { id: id.to_owned() };
        let id: SandboxId = now.sandbox(id).ok_or_else(missing)?.id.clone();
        self.deps.containers.resized().put_pod(&id, newer).await?;
        info!(sandbox = %id, "pod resources updated");
        Ok(())
    }

    /// What kubelet said last of a pod as a whole.
    pub fn resources(&self, sandbox: &SandboxRecord) -> PodResources {
        let (told, spec) =
            (self.deps.containers.resized().pod(&sandbox.id), &sandbox.document.spec);
        PodResources {
            overhead: told.overhead.or_else(|| spec.overhead.clone()),
            resources: told.resources.or_else(|| spec.resources.clone()),
        }
    }
}
