//! StopPodSandbox: kills the containers, then releases the network and kills the pause container at the same time.

use std::sync::Arc;

use tracing::info;

use super::service::{Sandboxes, gather};
use crate::{
    container::stop::{await_end, kill},
    error::Failure,
    model::{
        attachment::Attachment,
        id::SandboxId,
        network::NetworkMode,
        record::{Process, SandboxRecord},
    },
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
};

impl Sandboxes {
    /// Stops a sandbox and all its containers. Also succeeds if the sandbox is unknown or already stopped.
    /// Returns when the store shows the sandbox as stopped.
    ///
    /// # Errors
    /// A container cannot be stopped, so the pod keeps its network, or a later step fails. Another call retries.
    pub async fn stop(&self, id: &str) -> Result<(), Failure> {
        let Some(id) = self.resolve(id).await? else { return Ok(()) };
        let service = self.clone();
        self.stopping.run(id.clone(), async move { service.stop_locked(&id).await }).await?
    }

    /// Finds the full id of a sandbox. Also finds a sandbox that Docker no longer has, as long as it has containers, a
    /// checkpoint file, or a network that is not released, but fails in this case if Docker hides running containers.
    pub(super) async fn resolve(&self, id: &str) -> Result<Option<SandboxId>, Failure> {
        let snapshot = self.deps.node.store.synced(SYNC_TIMEOUT).await?;
        let found = snapshot.sandbox(id);
        if let Some(sandbox) = found.filter(|sandbox| sandbox.process.is_some()) {
            return Ok(Some(sandbox.id.clone()));
        }
        let known = found.map(|sandbox| sandbox.id.clone());
        let Some(id) = known.or_else(|| SandboxId::try_from(id).ok()) else { return Ok(None) };
        let has_leftovers = found.is_some()
            || snapshot.containers_of(&id).next().is_some()
            || snapshot.obsolete_checkpoints().contains(&id)
            || self.is_pinned(&id).await
            || self.deps.network.has_attachment(&id).await?;
        match snapshot.other_store() {
            Some(other) if has_leftovers && other.running > 0 => Err(Failure::unmet(format!(
                "the processes of sandbox {id} may still be running. {other}: {}",
                other.way_back()
            ))),
            _ => Ok(has_leftovers.then_some(id)),
        }
    }

    async fn stop_locked(&self, id: &SandboxId) -> Result<(), Failure> {
        let _held = self.lock_to_stop(id).await;
        let sandbox = self.deps.node.store.snapshot().sandbox(id.as_str()).map(Arc::clone);
        // While a container may still run, the pod keeps its network: otherwise another pod could get the address.
        self.stop_workloads(id).await?;
        self.deps.node.nri.stop_pod(id.as_str()).await;
        if let Some(sandbox) = &sandbox {
            self.ensure_pinned(sandbox).await?;
            let (network, pause) = tokio::join!(self.disconnect(sandbox), self.stop_pause(sandbox));
            gather([network, pause])?;
        } else {
            self.release_unknown(id).await?;
        }
        if sandbox.is_some_and(|sandbox| sandbox.process.is_none()) {
            // Docker and the lists no longer have this sandbox, so kubelet will not ask for its removal.
            self.forget(id).await?;
        }
        info!(sandbox = %id, "pod sandbox stopped");
        Ok(())
    }

    /// Kills all containers except those that have ended: one that the store shows as created may already run.
    async fn stop_workloads(&self, id: &SandboxId) -> Result<(), Failure> {
        let snapshot = self.deps.node.store.snapshot();
        let kills = snapshot
            .containers_of(id)
            .filter(|container| !container.process.has_ended())
            .map(|container| self.deps.containers.kill(container.id.as_str()));
        gather(futures_util::future::join_all(kills).await)
    }

    /// Pins the network namespace of a running pod with a CNI network if it is not pinned, for example because
    /// dockbridge just adopted the pod. CNI plugins need the namespace after the pause container has ended.
    pub(super) async fn ensure_pinned(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let attached = match &sandbox.attachment {
            Some(attachment) => attachment.cni().is_some(),
            // The network state is unknown, so CNI may have connected the pod.
            None => sandbox.document.network == NetworkMode::Cni,
        };
        let is_connected = sandbox.is_running() && attached && sandbox.has_same_pause_process();
        if !is_connected || self.is_pinned(&sandbox.id).await {
            return Ok(());
        }
        let now = self.deps.node.store.inspected(sandbox.id.as_str()).await?;
        let record = now.sandbox(sandbox.id.as_str()).filter(|it| it.has_same_pause_process());
        match record.and_then(|it| it.pid()) {
            Some(pid) => self.pin(&sandbox.id, pid).await,
            None => Ok(()),
        }
    }

    /// Releases the pod's CNI attachment, unless it is already released, and unpins the namespaces. The attachment is
    /// unknown if dockbridge adopted the pod while there was no network configuration.
    pub(super) async fn disconnect(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let cni = match &sandbox.attachment {
            Some(attachment) => attachment.cni().cloned(),
            None => self.adopter.find_cni(sandbox).await?,
        };
        if let Some(cni) = cni {
            self.deps.network.detach(&cni).await?;
            // If the checkpoint file cannot be written, the worst result is one more DEL after a restart. An
            // error would prevent the removal of the pod while the disk is full.
            self.try_save_attachment(sandbox, Attachment::Released).await;
        }
        self.unpin(&sandbox.id).await
    }

    /// Kills the pause container at once, because the pause program needs no time to end.
    async fn stop_pause(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let id = sandbox.id.as_str();
        match &sandbox.process {
            None | Some(Process::Created | Process::Exited { .. }) => return Ok(()),
            Some(Process::Running { .. } | Process::Listed(_) | Process::Unknown) => {}
        }
        kill(&self.deps.node.engine, id).await?;
        let runs = |now: &Snapshot| now.sandbox(id).is_some_and(|sandbox| sandbox.is_running());
        await_end(&self.deps.node.store, id, runs).await
    }
}
