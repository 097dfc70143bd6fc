//! ReopenContainerLog: kubelet has renamed a log file to rotate it, and requests a new file.

use tracing::info;

use super::{node::not_running, service::Containers};
use crate::{
    error::{Failure, WithKind, chain},
    model::id::ContainerId,
};

impl Containers {
    /// Starts a new log file for a running container. If the log is a link to Docker's log file, makes the link
    /// again. The new file or link exists when the call succeeds.
    ///
    /// # Errors
    /// The container is unknown or does not run (no file is then created), or the file cannot be created.
    /// After an error, kubelet gives the old file its name back.
    pub async fn reopen_log(&self, id: &str) -> Result<(), Failure> {
        let container = self.node.container(id).await?;
        let (service, id) = (self.clone(), container.id.clone());
        let reopen = async move { service.reopen_known(&container.id).await };
        self.reopening.run(id, reopen).await?
    }

    async fn reopen_known(&self, id: &ContainerId) -> Result<(), Failure> {
        let now = self.node.store.snapshot();
        let record = now.container(id.as_str()).filter(|record| record.process.is_running());
        let record = record.ok_or_else(|| not_running(id.as_str()))?;
        let reopened = self.node.logs.reopen(record).await;
        reopened.map_err(|error| Failure::new(error.kind(), chain(&error)))?;
        info!(container = %id, "log reopened");
        Ok(())
    }
}
