//! Restores lost checkpoint files and pins, and removes leftover files and pins: at the start and again later.
//!
//! The content of a checkpoint file that was lost before the start comes from the pause container and from CNI's
//! cache, the network namespace or the CNI configuration. A lost pin is restored only if the pause container runs. If
//! the store no longer shows a sandbox, dockbridge first releases its network and then removes its files.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{pod_network::checkpoint, service::Sandboxes};
use crate::{
    concurrency::backoff::Backoff,
    container::pod_files::named_after_pods,
    error::{Failure, chain},
    host::file::Durability,
    model::{
        attachment::{Attachment, CniAttachment},
        id::SandboxId,
        network::NetworkMode,
        record::{Process, SandboxRecord},
    },
    store::snapshot::Snapshot,
};

impl Sandboxes {
    /// Restores lost pins and checkpoint files of sandboxes, each after the sandbox's inspect. The shutdown, which
    /// waits for `tracker`, does not wait for inspects. Must be called after the engine's first list. CRI calls may run
    /// at the same time as this function.
    pub async fn recover_sandboxes(&self, tracker: &TaskTracker) {
        let snapshot = self.deps.node.store.snapshot();
        let all = snapshot.sandboxes().iter().map(async |sandbox| {
            self.until_inspected(&sandbox.id).await;
            let recovered = tracker.track_future(self.recover_one(&sandbox.id)).await;
            if let Err(error) = recovered {
                warn!(sandbox = %sandbox.id, error = chain(&error), "cannot restore the pins or the checkpoint file of a pod after the start of dockbridge");
            }
        });
        join_all(all).await;
    }

    /// Restores the limits of running containers, removes the files and networks of unknown sandboxes, then calls DEL
    /// for cached attachments of other pods that are gone. The store must be complete.
    pub async fn clean_up(&self) {
        self.deps.limits.restore().await;
        self.remove_leftovers().await;
        self.sweep_edits().await;
        self.release_stale().await;
    }

    /// Repeats [`Self::release_stale`] until it succeeds, with increasing pauses. Starts again each time the network of
    /// a pod counts as released although its DEL has failed. The shutdown, which waits for `tracker`, waits for a
    /// running call of [`Self::release_stale`].
    pub async fn repeat_releases(&self, tracker: &TaskTracker, every: Duration) -> Infallible {
        let mut pauses = Backoff::new(every, LONGEST_PAUSE);
        let mut is_released = false;
        loop {
            let pause = pauses.failed();
            tokio::select! {
                () = sleep(pause), if !is_released => {}
                () = self.deps.network.repeat_requested.notified() => {
                    pauses.succeeded();
                    sleep(pauses.failed()).await;
                }
            }
            is_released = tracker.track_future(self.release_stale()).await;
        }
    }

    /// Calls DEL for cached attachments of dockbridge and cri-dockerd that no pod has any more and whose network
    /// namespace is gone. Returns false if it must be called again.
    async fn release_stale(&self) -> bool {
        if self.mode != NetworkMode::Cni {
            return true;
        }
        if !self.deps.node.store.snapshot().is_complete() {
            return false;
        }
        let released = self.deps.network.release_stale(&self.live_attachments()).await;
        if let Err(error) = &released {
            warn!(
                error = chain(error),
                "cannot release the networks of pods that are gone; retrying"
            );
        }
        released.is_ok()
    }

    /// Removes dockbridge-runtime's files of pods and containers that are gone, after the pods' networks and pins.
    pub async fn sweep_edits(&self) {
        let mut left = BTreeSet::new();
        for id in self.deps.node.ids_with_files().await {
            // Skips a locked pod, because the call that has the lock may create or remove the files.
            let Some(_held) = self.deps.node.locks.try_write(id.as_str()) else { continue };
            let now = self.deps.node.store.snapshot();
            if !now.is_complete() || !is_unknown(&now, &id) {
                continue;
            }
            let released = self.release_unknown(&id).await;
            let released = released.inspect_err(|error| tell_unclean(&id, error));
            if !released.unwrap_or_default() {
                left.insert(id);
            }
        }
        // The files of `left` stay: they show the next clean-up which pins it must remove.
        self.deps.node.sweep_edits(&left).await;
    }

    /// Writes deleted checkpoint files again, and removes files and pins of unknown pods. A pod can become unknown
    /// later, when Docker finishes a removal that an earlier dockbridge process had begun.
    pub async fn reconcile_checkpoints(&self) {
        self.restore_checkpoints().await;
        self.remove_leftovers().await;
    }

    async fn remove_leftovers(&self) {
        let now = self.deps.node.store.snapshot();
        if !now.is_complete() {
            return;
        }
        for id in self.leftovers(&now).await {
            // Skips a locked sandbox until the next clean-up: the call with the lock may use the files and pins.
            let Some(_held) = self.deps.node.locks.try_write(id.as_str()) else { continue };
            if let Err(error) = self.remove_leftover(&id).await {
                tell_unclean(&id, &error);
            }
        }
    }

    /// Writes deleted checkpoint files again, except those of pods with a call in progress.
    pub async fn restore_checkpoints(&self) {
        let stored = self.deps.checkpoints.stored().await;
        let known = self.deps.node.store.snapshot();
        for id in known.sandboxes().iter().map(|sandbox| &sandbox.id) {
            if stored.contains(id) {
                continue;
            }
            let Some(_held) = self.deps.node.locks.try_write(id.as_str()) else { continue };
            let now = self.deps.node.store.snapshot();
            let Some(sandbox) = now.sandbox(id.as_str()) else { continue };
            let Some(attachment) = sandbox.attachment.clone() else { continue };
            let lost = checkpoint(sandbox, attachment);
            match self.deps.checkpoints.save(&lost, Durability::Written).await {
                Ok(()) => {
                    info!(sandbox = %id, "wrote the missing checkpoint file of a pod");
                }
                Err(error) => {
                    warn!(
                        sandbox = %id,
                        error = chain(&error),
                        "cannot write the missing checkpoint file of a pod; retrying later"
                    );
                }
            }
        }
    }

    async fn until_inspected(&self, id: &SandboxId) {
        let is_inspected = |now: &Arc<Snapshot>| {
            let process = now.sandbox(id.as_str()).and_then(|sandbox| sandbox.process.as_ref());
            (!process.is_some_and(Process::is_listed)).then_some(())
        };
        self.deps.node.store.when(is_inspected).await;
    }

    async fn recover_one(&self, id: &SandboxId) -> Result<(), Failure> {
        let _held = self.deps.node.locks.write(id.as_str()).await;
        let snapshot = self.deps.node.store.snapshot();
        let Some(sandbox) = snapshot.sandbox(id.as_str()) else { return Ok(()) };
        self.restore_user_pin(sandbox).await?;
        if sandbox.document.network != NetworkMode::Cni {
            return Ok(());
        }
        let mut attachment = sandbox.attachment.clone();
        if attachment.is_none()
            && let Some(found) = self.adopter.find(sandbox).await
        {
            self.save_attachment(sandbox, found.clone(), Durability::Synced).await?;
            info!(sandbox = %sandbox.id, "recovered the network state of a pod without a checkpoint file");
            attachment = Some(found);
        }
        match (sandbox.pid(), &attachment) {
            (Some(pid), Some(attachment))
                if attachment.cni().is_some() && sandbox.has_same_pause_process() =>
            {
                self.pin(id, pid).await?;
                self.record_start(sandbox, attachment).await
            }
            _ => Ok(()),
        }
    }

    /// Adds the pause container's start time to a ready attachment that has none, such as one from the CNI cache.
    async fn record_start(
        &self,
        sandbox: &SandboxRecord,
        attachment: &Attachment,
    ) -> Result<(), Failure> {
        let mut updated = attachment.clone();
        if let Attachment::Ready { started_at: none @ None, .. } = &mut updated {
            *none = sandbox.process.as_ref().and_then(Process::started_at).filter(|at| at.is_set());
            self.save_attachment(sandbox, updated, Durability::Written).await?;
        }
        Ok(())
    }

    /// Ids of sandboxes that the store does not show, but of which files, pins or obsolete checkpoint files are left.
    async fn leftovers(&self, snapshot: &Snapshot) -> BTreeSet<SandboxId> {
        let files = self.deps.node.pod_files.pods().await;
        let pinned = self.deps.node.oci_runtime_files.pinned().await;
        let [networks, earlier] = self.pins.all().map(named_after_pods);
        let (networks, earlier) = tokio::join!(networks, earlier);
        let obsolete = snapshot.obsolete_checkpoints().iter().cloned();
        files
            .into_iter()
            .chain(pinned)
            .chain(networks)
            .chain(earlier)
            .chain(obsolete)
            .filter(|id| is_unknown(snapshot, id))
            .collect()
    }

    async fn remove_leftover(&self, id: &SandboxId) -> Result<(), Failure> {
        if is_unknown(&self.deps.node.store.snapshot(), id) && self.release_unknown(id).await? {
            self.forget(id).await?;
            info!(sandbox = %id, "cleaned up after a pod sandbox that is gone from Docker");
        }
        Ok(())
    }

    fn live_attachments(&self) -> Vec<CniAttachment> {
        let snapshot = self.deps.node.store.snapshot();
        let attachments = snapshot.sandboxes().iter().filter_map(|one| one.attachment.as_ref());
        attachments.filter_map(Attachment::cni).cloned().collect()
    }
}

fn is_unknown(snapshot: &Snapshot, id: &SandboxId) -> bool {
    snapshot.sandbox(id.as_str()).is_none() && snapshot.containers_of(id).next().is_none()
}

fn tell_unclean(id: &SandboxId, error: &Failure) {
    warn!(sandbox = %id, error = chain(error), "cannot clean up after this pod sandbox; retrying");
}

const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
