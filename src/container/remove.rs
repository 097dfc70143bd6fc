//! RemoveContainer: by force, with what belongs to it; removing nothing is success.

use std::time::Duration;

use tracing::{info, warn};

use super::{error::ContainerError, log_link, room::Containers};
use crate::{engine::error::Clash, model::id::ContainerId};

impl Containers {
    /// Removes a container, killing it if need be. Unknown containers are fine. Returns once
    /// the store no longer shows it.
    ///
    /// # Errors
    /// The engine fails.
    pub async fn remove(&self, id: &str) -> Result<(), ContainerError> {
        let Some(id) = self.find_id(id).await? else { return Ok(()) };
        let room = self.clone();
        self.removing.run(id.clone(), async move { room.remove_known(&id).await }).await?
    }

    async fn remove_known(&self, id: &ContainerId) -> Result<(), ContainerError> {
        let _held = self.locks.write(id.as_str()).await;
        let before = self.store.snapshot();
        self.remove_from_engine(id).await?;
        self.store.refresh_container(id.as_str()).await?;
        if let Some(record) = before.container(id.as_str()) {
            let sandbox = before.sandbox(record.document.sandbox.as_str());
            let removed = log_link::remove(record, sandbox.map(|found| &**found)).await;
            if let Err(error) = removed {
                warn!(container = %id, %error, "the log link stays behind");
            }
        }
        info!(container = %id, "container removed");
        Ok(())
    }

    async fn remove_from_engine(&self, id: &ContainerId) -> Result<(), ContainerError> {
        match self.engine.remove_container(id.as_str()).await {
            Err(error) if error.is_clash(Clash::RemovalInProgress) => self.await_absence(id).await,
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Somebody else's removal is under way: its end is ours too.
    async fn await_absence(&self, id: &ContainerId) -> Result<(), ContainerError> {
        let wanted = id.clone();
        let gone = move |now: &crate::store::snapshot::Snapshot| {
            now.container(wanted.as_str()).is_none().then_some(())
        };
        if self.store.wait(REMOVAL_PATIENCE, gone).await.is_none() {
            // Still there after all this time: say what the engine says now.
            self.engine.remove_container(id.as_str()).await?;
        }
        Ok(())
    }
}

/// How long another removal of the same container may take.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(30);
