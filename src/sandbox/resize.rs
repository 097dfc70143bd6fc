//! UpdatePodSandboxResources: kubelet sends the limits of a pod before it sets them. kubelet itself changes the pod's
//! cgroup, so dockbridge asks NRI plugins and records the limits. If the call fails, kubelet does not resize the pod.

use tracing::info;

use super::service::Sandboxes;
use crate::{
    error::Failure,
    model::{record::SandboxRecord, resources::PodResources},
    store::settings::SYNC_TIMEOUT,
};

impl Sandboxes {
    /// Records the pod-level limits on disk. Fails if the sandbox is unknown, an NRI plugin refuses or the write fails.
    pub async fn resize(&self, id: &str, newer: PodResources) -> Result<(), Failure> {
        let now = self.deps.node.store.synced(SYNC_TIMEOUT).await?;
        let pod = now.known_sandbox(id)?;
        self.deps.node.nri.update_pod(pod, &newer).await?;
        self.deps.node.saved_changes.put_pod_limits(&pod.id, newer).await?;
        self.deps.node.nri.pod_updated(pod).await;
        info!(sandbox = %pod.id, "pod resources updated");
        Ok(())
    }

    /// The pod-level limits that kubelet sent last for this pod.
    pub fn resources(&self, sandbox: &SandboxRecord) -> PodResources {
        self.deps.node.saved_changes.pod_limits(sandbox)
    }
}
