//! Making good what was lost while nobody looked: a state directory, a runtime directory, a
//! sandbox.
//!
//! Docker's label holds what a sandbox is; CNI's own result cache holds what plugins answered.
//! Where the checkpoint of a sandbox is gone, the two together are as good. Pins live in a
//! directory that a reboot or an operator may empty; while the pause runs they are remade. What
//! we keep of a sandbox that Docker no longer has goes, once its network is released.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::join_all;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{error::SandboxError, pod_network::checkpoint, service::Sandboxes};
use crate::{
    error::chain,
    host::file::Durability,
    model::{
        attachment::{Attachment, AttachmentIntent},
        id::SandboxId,
        network::NetworkMode,
        record::{Process, SandboxRecord},
    },
    store::snapshot::Snapshot,
};

impl Sandboxes {
    /// Restores pins of sandboxes, and what connects those whose checkpoint is lost, each as soon as
    /// it has been inspected; only what is done then belongs to `tracker`. To be called after the
    /// engine's first list; verbs may be under way.
    pub async fn recover_sandboxes(&self, tracker: &TaskTracker) {
        let snapshot = self.deps.store.snapshot();
        let all = snapshot.sandboxes().iter().map(async |sandbox| {
            self.seen(&sandbox.id).await;
            let recovered = tracker.track_future(self.recover_one(&sandbox.id)).await;
            if let Err(error) = recovered {
                let error = chain(&error);
                warn!(sandbox = %sandbox.id, error, "cannot recover this pod sandbox after the restart");
            }
        });
        join_all(all).await;
    }

    /// Restores limits of running containers, clears away what is nobody's, then lets plugins collect
    /// what no sandbox holds. To be called once everything was inspected.
    pub async fn clear_up(&self) {
        self.deps.containers.restore_limits().await;
        let snapshot = self.deps.store.snapshot();
        for id in self.left_behind(&snapshot).await {
            if let Err(error) = self.clear_away(&id).await {
                let error = chain(&error);
                warn!(sandbox = %id, error, "cannot clean up after this pod sandbox; retrying");
            }
        }
        if self.mode == NetworkMode::Cni {
            self.collect_garbage().await;
        }
    }

    /// Keeps files and pods together: what was deleted is written again, and what is of no pod any
    /// more goes. A removal that a killed predecessor began may come true after the start.
    pub async fn sweep(&self) {
        self.restore_checkpoints().await;
        self.clear_spent().await;
    }

    async fn clear_spent(&self) {
        let now = self.deps.store.snapshot();
        for id in now.obsolete_checkpoints().iter().filter(|_| now.is_complete()) {
            // Whoever removes it now does the rest as well.
            let Some(_held) = self.locks.try_write(id.as_str()) else { continue };
            let now = self.deps.store.snapshot();
            if now.obsolete_checkpoints().contains(id)
                && let Err(error) = self.clear_held(&now, id).await
            {
                let error = chain(&error);
                warn!(sandbox = %id, error, "cannot clean up after this pod sandbox; retrying");
            }
        }
    }

    /// Writes checkpoints again whose files somebody has deleted. A pod that is being changed is left
    /// to who changes it.
    async fn restore_checkpoints(&self) {
        let stored = self.deps.checkpoints.stored().await;
        let known = self.deps.store.snapshot();
        for id in known.sandboxes().iter().map(|sandbox| &sandbox.id) {
            if stored.contains(id) {
                continue;
            }
            let Some(_held) = self.locks.try_write(id.as_str()) else { continue };
            let now = self.deps.store.snapshot();
            let sandbox = now.sandbox(id.as_str());
            let Some((sandbox, attachment)) =
                sandbox.zip(sandbox.and_then(|s| s.attachment.clone()))
            else {
                continue;
            };
            let lost = checkpoint(sandbox, attachment);
            match self.deps.checkpoints.save(&lost, Durability::Written).await {
                Ok(()) => info!(sandbox = %id, "deleted checkpoint written again"),
                Err(error) => {
                    let error = chain(&error);
                    warn!(sandbox = %id, error, "cannot write a deleted checkpoint again; retrying");
                }
            }
        }
    }

    /// Returns when the sandbox has been inspected.
    async fn seen(&self, id: &SandboxId) {
        let is_seen = |now: &Arc<Snapshot>| {
            let process = now.sandbox(id.as_str()).and_then(|sandbox| sandbox.process.as_ref());
            (!process.is_some_and(Process::is_listed)).then_some(())
        };
        self.deps.store.when(is_seen).await;
    }

    async fn recover_one(&self, id: &SandboxId) -> Result<(), SandboxError> {
        let _held = self.locks.write(id.as_str()).await;
        self.bring_pin(id).await;
        let snapshot = self.deps.store.snapshot();
        let Some(sandbox) = snapshot.sandbox(id.as_str()) else { return Ok(()) };
        if sandbox.document.network != NetworkMode::Cni {
            return Ok(());
        }
        let recalled = match &sandbox.attachment {
            None => self.recall(sandbox).await?,
            Some(_) => None,
        };
        let attachment = sandbox.attachment.as_ref().or(recalled.as_ref());
        match (sandbox.pid(), attachment) {
            (Some(pid), Some(attachment))
                if attachment.intent().is_some() && sandbox.is_as_connected() =>
            {
                self.pin(id, pid).await?;
                self.note_start(sandbox, attachment).await
            }
            _ => Ok(()),
        }
    }

    /// Notes of a pod that was connected by others, or by an earlier one of us, which start of its
    /// process that was.
    async fn note_start(
        &self,
        sandbox: &SandboxRecord,
        attachment: &Attachment,
    ) -> Result<(), SandboxError> {
        let mut noted = attachment.clone();
        if let Attachment::Ready { started_at: none @ None, .. } = &mut noted {
            *none = sandbox.process.as_ref().and_then(Process::started_at).filter(|at| at.is_set());
            self.save_attachment(sandbox, noted, Durability::Written).await?;
        }
        Ok(())
    }

    /// The attachment of a sandbox, running or not, whose checkpoint is lost.
    async fn recall(&self, sandbox: &SandboxRecord) -> Result<Option<Attachment>, SandboxError> {
        let Some(found) = self.adopter.find(sandbox).await else { return Ok(None) };
        self.save_attachment(sandbox, found.clone(), Durability::Synced).await?;
        info!(sandbox = %sandbox.id, "network state of a pod without a checkpoint recovered from the CNI cache");
        Ok(Some(found))
    }

    /// Sandboxes that Docker does not have and that hold no network, but of which we keep files.
    async fn left_behind(&self, snapshot: &Snapshot) -> BTreeSet<SandboxId> {
        let files = self.deps.containers.files().owners().await;
        let spent = snapshot.obsolete_checkpoints().iter().cloned();
        files.into_iter().chain(spent).filter(|id| is_nobodys(snapshot, id)).collect()
    }

    async fn clear_away(&self, id: &SandboxId) -> Result<(), SandboxError> {
        let _held = self.locks.write(id.as_str()).await;
        self.clear_held(&self.deps.store.snapshot(), id).await
    }

    async fn clear_held(&self, now: &Snapshot, id: &SandboxId) -> Result<(), SandboxError> {
        if is_nobodys(now, id) {
            self.unpin(id).await?;
            self.forget(id).await?;
            info!(sandbox = %id, "cleaned up after a pod sandbox that is gone from Docker");
        }
        Ok(())
    }

    async fn collect_garbage(&self) {
        let snapshot = self.deps.store.snapshot();
        let live: Vec<AttachmentIntent> = snapshot
            .sandboxes()
            .iter()
            .filter_map(|sandbox| sandbox.attachment.as_ref().and_then(Attachment::intent))
            .cloned()
            .collect();
        if let Err(error) = self.deps.network.gc(&live).await {
            warn!(
                error = chain(&error),
                "CNI GC failed; leftovers of plugins stay until dockbridge starts again"
            );
        }
    }
}

fn is_nobodys(snapshot: &Snapshot, id: &SandboxId) -> bool {
    snapshot.sandbox(id.as_str()).is_none() && snapshot.containers_of(id).is_empty()
}
