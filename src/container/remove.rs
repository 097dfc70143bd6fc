//! RemoveContainer: kills and removes a container and its anonymous volumes. kubelet removes the log file.

use std::time::Duration;

use tracing::info;

use super::service::Containers;
use crate::{error::Failure, model::id::ContainerId};

impl Containers {
    /// Removes a container, if it exists, running or not. Returns when the store no longer shows the container.
    pub async fn remove(&self, id: &str) -> Result<(), Failure> {
        let Some(container) = self.node.find_container(id).await? else { return Ok(()) };
        let (service, id) = (self.clone(), container.id.clone());
        self.removing.run(id.clone(), async move { service.remove_known(&id).await }).await?
    }

    async fn remove_known(&self, id: &ContainerId) -> Result<(), Failure> {
        self.node.end_unpacking(id).await?;
        let _held = self.node.locks.write(id.as_str()).await;
        let _thawed = self.node.thawed(id, Duration::ZERO).await?;
        let before = self.node.store.snapshot();
        self.node.engine.remove_container(id.as_str()).await?;
        self.node.oci_runtime_files.remove(id.as_str()).await;
        self.node.store.refresh_container(id.as_str()).await?;
        self.unseen_starts.lock().remove(id);
        if let Some(record) = before.container(id.as_str()) {
            self.node.logs.forget(record).await;
            self.node.release_mounted(&record.document.image_volumes).await;
        }
        self.node.saved_changes.remove_gone(&self.node.store).await;
        self.node.nri.remove_container(id.as_str()).await;
        info!(container = %id, "container removed");
        Ok(())
    }
}
