//! Making good what was lost while nobody looked: a state directory, a runtime directory.
//!
//! Docker's label holds what a sandbox is; CNI's own result cache holds what plugins answered.
//! Where the checkpoint of a running sandbox is gone, the two together are as good. Pins live
//! in a directory that a reboot or an operator may empty; while the pause runs they are remade.

use tracing::{info, warn};

use super::{error::SandboxError, room::Sandboxes, run::pin_namespace};
use crate::{
    host::file::Durability,
    model::{
        network::{Attachment, AttachmentIntent, NetworkMode},
        record::SandboxRecord,
    },
};

impl Sandboxes {
    /// Restores checkpoints and pins of running sandboxes from what else there is, then lets
    /// plugins collect what no sandbox holds. To be called after each first look at the engine.
    pub async fn recover(&self) {
        let snapshot = self.rooms.store.snapshot();
        for sandbox in snapshot.sandboxes() {
            if sandbox.document.network != NetworkMode::Cni || sandbox.pid().is_none() {
                continue;
            }
            if let Err(error) = self.recover_one(sandbox).await {
                warn!(sandbox = %sandbox.id, %error, "this sandbox could not be recovered");
            }
        }
        if self.mode == NetworkMode::Cni {
            self.collect_garbage().await;
        }
    }

    async fn recover_one(&self, sandbox: &SandboxRecord) -> Result<(), SandboxError> {
        let _held = self.locks.write(sandbox.id.as_str()).await;
        if sandbox.attachment.is_none() {
            let pod = self.pod_network(&sandbox.id, &sandbox.document.spec);
            if let Some(found) = self.rooms.network.recall(pod).await {
                self.remember(sandbox, found, Durability::Synced).await?;
                info!(sandbox = %sandbox.id, "network state recalled from the CNI cache");
            }
        }
        let pin = self.pin_of(&sandbox.id);
        if let Some(pid) = sandbox.pid()
            && !tokio::fs::try_exists(&pin).await.unwrap_or(false)
        {
            let failed =
                |cause| SandboxError::Pin { id: sandbox.id.to_string(), path: pin.clone(), cause };
            pin_namespace(pid, pin.clone()).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn collect_garbage(&self) {
        let snapshot = self.rooms.store.snapshot();
        let live: Vec<AttachmentIntent> = snapshot
            .sandboxes()
            .iter()
            .filter_map(|sandbox| sandbox.attachment.as_ref().and_then(Attachment::intent))
            .cloned()
            .collect();
        if let Err(error) = self.rooms.network.gc(&live).await {
            warn!(%error, "network plugins could not collect garbage");
        }
    }
}
