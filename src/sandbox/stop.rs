//! StopPodSandbox: the containers end, the network is released, the pause container ends.
//!
//! All containers are killed first, at the same time. The namespace is pinned, so the network can be
//! released while the pause container ends.

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
    /// Stops a sandbox and everything in it. Unknown and stopped sandboxes are accepted. Returns when the
    /// store shows it.
    ///
    /// # Errors
    /// All failures. Every step is tried, and another call continues.
    pub async fn stop(&self, id: &str) -> Result<(), Failure> {
        let Some(id) = self.resolve(id).await? else { return Ok(()) };
        let service = self.clone();
        self.stopping.run(id.clone(), async move { service.stop_locked(&id).await }).await?
    }

    /// The sandbox with this id. If Docker no longer has it, it is found while it has containers, a
    /// checkpoint, or a network that is not released.
    ///
    /// # Errors
    /// Docker hides containers that run: those of this sandbox may be among them.
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
                "the processes of sandbox {id} may still run. {other}: {}",
                other.way_back()
            ))),
            _ => Ok(has_leftovers.then_some(id)),
        }
    }

    async fn stop_locked(&self, id: &SandboxId) -> Result<(), Failure> {
        let _held = self.lock_to_stop(id).await;
        let sandbox = self.deps.node.store.snapshot().sandbox(id.as_str()).map(Arc::clone);
        let mut causes = self.stop_workloads(id).await;
        if causes.is_empty() {
            self.deps.node.nri.stop_pod(id.as_str()).await;
        }
        if let Some(sandbox) = &sandbox {
            self.ensure_pinned(sandbox).await?;
            let (network, pause) = tokio::join!(self.disconnect(sandbox), self.stop_pause(sandbox));
            causes.extend([network, pause].into_iter().filter_map(Result::err));
        } else if causes.is_empty() {
            causes.extend(self.release_unknown(id).await.err());
        }
        gather(causes)?;
        if sandbox.is_some_and(|sandbox| sandbox.process.is_none()) {
            // Docker no longer has it and no list shows it, so kubelet will not remove it.
            self.forget(id).await?;
        }
        info!(sandbox = %id, "pod sandbox stopped");
        Ok(())
    }

    /// Kills all containers that are not known to have ended. A container listed as created may run,
    /// because the inspect after its start may have failed.
    async fn stop_workloads(&self, id: &SandboxId) -> Vec<Failure> {
        let snapshot = self.deps.node.store.snapshot();
        let kills = snapshot
            .containers_of(id)
            .filter(|container| !container.process.has_ended())
            .map(|container| self.deps.containers.kill(&container.id));
        let ended = futures_util::future::join_all(kills).await;
        ended.into_iter().filter_map(Result::err).collect()
    }

    /// Pins the namespace of a running pause container if it is not pinned, for example because the pod was
    /// just adopted. The plugins need the namespace after the pause container has ended.
    pub(super) async fn ensure_pinned(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let runs = sandbox.process.as_ref().is_some_and(Process::is_running);
        let attached = match &sandbox.attachment {
            Some(attachment) => attachment.intent().is_some(),
            // Its state is unknown, so it may be running.
            None => sandbox.document.network == NetworkMode::Cni,
        };
        if !runs || !attached || !sandbox.is_as_connected() || self.is_pinned(&sandbox.id).await {
            return Ok(());
        }
        let now = self.deps.node.store.inspected(sandbox.id.as_str()).await?;
        let record = now.sandbox(sandbox.id.as_str()).filter(|it| it.is_as_connected());
        match record.and_then(|it| it.pid()) {
            Some(pid) => self.pin(&sandbox.id, pid).await,
            None => Ok(()),
        }
    }

    /// Releases the CNI attachment, once. If a pod was adopted while there was no network configuration,
    /// its attachment is unknown, but it may still have to be released.
    pub(super) async fn disconnect(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let intent = match &sandbox.attachment {
            Some(attachment) => attachment.intent().cloned(),
            None => self.adopter.find_intent(sandbox).await?,
        };
        if let Some(intent) = intent {
            self.deps.network.detach(&intent).await?;
            // If this cannot be written, a restart causes one more DEL. Failing would keep the pod on a full
            // disk.
            self.try_save_attachment(sandbox, Attachment::Released).await;
        }
        self.unpin(&sandbox.id).await
    }

    /// Kills the pause container; it needs no SIGTERM.
    async fn stop_pause(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let id = sandbox.id.as_str();
        match &sandbox.process {
            None | Some(Process::Created | Process::Exited { .. }) => return Ok(()),
            Some(Process::Running { .. } | Process::Listed(_) | Process::Unknown) => {}
        }
        kill(&self.deps.node.engine, id).await?;
        let runs = |now: &Snapshot| {
            let process = now.sandbox(id).and_then(|sandbox| sandbox.process.as_ref());
            process.is_some_and(Process::is_running)
        };
        await_end(&self.deps.node.store, id, runs).await
    }
}
