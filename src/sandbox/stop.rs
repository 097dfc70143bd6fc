//! StopPodSandbox: workloads end, the network is released, the pause ends.
//!
//! Workloads go first and together. The namespace is pinned, so releasing the network does not
//! need the pause and runs beside its end.

use std::sync::Arc;

use tracing::info;

use super::{error::SandboxError, service::Sandboxes};
use crate::{
    container::end::{await_end, kill},
    model::{
        attachment::{Attachment, AttachmentIntent},
        id::SandboxId,
        record::{Process, SandboxRecord},
    },
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
};

impl Sandboxes {
    /// Stops a sandbox and everything in it. Unknown and stopped sandboxes are fine. Returns
    /// once the store shows it.
    ///
    /// # Errors
    /// All that failed; every step is tried nevertheless, and calling again resumes.
    pub async fn stop(&self, id: &str) -> Result<(), SandboxError> {
        let Some(id) = self.resolve(id).await? else { return Ok(()) };
        let service = self.clone();
        self.stopping.run(id.clone(), async move { service.stop_locked(&id).await }).await?
    }

    /// The sandbox the caller means. One that Docker lost still has an id while containers
    /// carry it, or we remember it.
    pub(super) async fn resolve(&self, id: &str) -> Result<Option<SandboxId>, SandboxError> {
        let snapshot = self.deps.store.synced(SYNC_TIMEOUT).await?;
        if let Some(sandbox) = snapshot.sandbox(id) {
            return Ok(Some(sandbox.id.clone()));
        }
        let left = |id: &SandboxId| {
            !snapshot.containers_of(id).is_empty() || snapshot.obsolete_checkpoints().contains(id)
        };
        Ok(SandboxId::try_from(id).ok().filter(left))
    }

    async fn stop_locked(&self, id: &SandboxId) -> Result<(), SandboxError> {
        let _held = self.lock_to_stop(id).await;
        self.bring_pin(id).await;
        let sandbox = self.deps.store.snapshot().sandbox(id.as_str()).map(Arc::clone);
        self.stop_known(id, sandbox.as_deref()).await?;
        info!(sandbox = %id, "pod sandbox stopped");
        Ok(())
    }

    async fn stop_known(
        &self,
        id: &SandboxId,
        sandbox: Option<&SandboxRecord>,
    ) -> Result<(), SandboxError> {
        let mut causes = self.stop_workloads(id).await;
        if let Some(sandbox) = sandbox {
            self.hold_namespace(sandbox).await?;
            let (network, pause) = tokio::join!(self.disconnect(sandbox), self.stop_pause(sandbox));
            causes.extend([network, pause].into_iter().filter_map(Result::err));
        }
        SandboxError::gather(causes)?;
        if sandbox.is_some_and(|sandbox| sandbox.process.is_none()) {
            // Docker lost it and now nothing shows it: nobody will ask for its removal.
            self.forget(id).await?;
        }
        Ok(())
    }

    /// Kills whatever is not known to have ended. One that is shown as created may run: the look
    /// after its start may have failed.
    async fn stop_workloads(&self, id: &SandboxId) -> Vec<SandboxError> {
        let snapshot = self.deps.store.snapshot();
        let kills = snapshot
            .containers_of(id)
            .iter()
            .filter(|container| !container.process.has_ended())
            .map(|container| self.deps.containers.kill(&container.id));
        let ended = futures_util::future::join_all(kills).await;
        ended.into_iter().filter_map(Result::err).map(SandboxError::from).collect()
    }

    /// Sees to it that the namespace outlives the pause until plugins have worked in it: one that was
    /// adopted a moment ago may not be pinned yet.
    pub(super) async fn hold_namespace(&self, sandbox: &SandboxRecord) -> Result<(), SandboxError> {
        let runs = sandbox.process.as_ref().is_some_and(Process::is_running);
        let holds = sandbox.attachment.as_ref().and_then(Attachment::intent).is_some();
        if !runs || !holds || !sandbox.is_as_connected() || self.is_pinned(&sandbox.id).await {
            return Ok(());
        }
        let now = self.deps.store.inspected(sandbox.id.as_str()).await?;
        let seen = now.sandbox(sandbox.id.as_str()).filter(|seen| seen.is_as_connected());
        match seen.and_then(|seen| seen.pid()) {
            Some(pid) => self.pin(&sandbox.id, pid).await,
            None => Ok(()),
        }
    }

    /// Releases what CNI holds, once.
    pub(super) async fn disconnect(&self, sandbox: &SandboxRecord) -> Result<(), SandboxError> {
        if let Some(intent) = sandbox.attachment.as_ref().and_then(Attachment::intent) {
            self.release_network(sandbox, intent).await?;
        }
        self.unpin(&sandbox.id).await
    }

    async fn release_network(
        &self,
        sandbox: &SandboxRecord,
        intent: &AttachmentIntent,
    ) -> Result<(), SandboxError> {
        self.deps.network.detach(intent).await?;
        // Costs one more DEL after a restart, whereas a pod that cannot go frees no disk.
        self.try_save_attachment(sandbox, Attachment::Released).await;
        Ok(())
    }

    /// Ends the pause; nothing in it is worth asking politely.
    async fn stop_pause(&self, sandbox: &SandboxRecord) -> Result<(), SandboxError> {
        let id = sandbox.id.as_str();
        match &sandbox.process {
            None | Some(Process::Created | Process::Exited { .. }) => return Ok(()),
            Some(Process::Running { .. } | Process::Listed(_) | Process::Unknown) => {}
        }
        kill(&self.deps.engine, id).await?;
        let runs = |now: &Snapshot| now.sandbox(id).is_some_and(is_running);
        Ok(await_end(&self.deps.store, id, runs).await?)
    }
}

fn is_running(sandbox: &Arc<SandboxRecord>) -> bool {
    sandbox.process.as_ref().is_some_and(Process::is_running)
}
