//! StartContainer: one call, and the log made visible.

use std::sync::Arc;

use tracing::{info, warn};

use super::{error::ContainerError, service::Containers};
use crate::{
    error::chain,
    model::{engine::Transition, id::ContainerId, record::ContainerRecord},
    store::{engine_call::EngineCall, settings::SYNC_TIMEOUT},
};

impl Containers {
    /// Starts a container; one that runs already is fine.
    ///
    /// # Errors
    /// The container is unknown, or its process cannot be started (the engine's error).
    pub async fn start(&self, id: &str) -> Result<(), ContainerError> {
        let container = self.known(id).await?;
        let service = self.clone();
        let key = container.id.clone();
        self.starting.run(key, async move { service.start_known(&container).await }).await?
    }

    async fn start_known(&self, container: &ContainerRecord) -> Result<(), ContainerError> {
        let id = container.id.as_str();
        let _sandbox = self.locks.read(container.document.sandbox.as_str()).await;
        let _held = self.locks.write(id).await;
        let _mounted = self.ensure_mounted(&container.document).await?;
        self.write_edits(container).await?;
        self.nri.start_container(container).await?;
        let starting = EngineCall::begin(Transition::Started);
        let started = self.engine.start_container(id).await;
        // Also after a failure: the record then has the reason, and counts as exited.
        let seen = match started {
            Ok(()) => self.store.refresh_after(starting, id).await,
            Err(_) => self.store.refresh_container(id).await,
        };
        let was_started = started.is_ok() && !container.process.is_running();
        self.nri.container_started(id, was_started).await;
        started?;
        if seen.is_err() && self.needs_limits(container) {
            self.end_unlimited(&container.id).await;
        }
        seen?;
        if let Some(record) = self.store.snapshot().container(id) {
            self.limit_started(record).await?;
        }
        info!(container = id, name = container.name, "container started");
        if let Some(record) = self.store.snapshot().container(id)
            && let Err(error) = self.logs.started(record).await
        {
            warn!(
                container = id,
                error = chain(&error),
                "cannot write the log of this container; kubectl logs will not show it"
            );
        }
        Ok(())
    }

    /// A container that cannot be limited as asked must not run.
    async fn limit_started(&self, record: &ContainerRecord) -> Result<(), ContainerError> {
        let limited = self.apply_limits(record).await;
        if limited.is_err() {
            self.end_unlimited(&record.id).await;
        }
        limited
    }

    async fn end_unlimited(&self, id: &ContainerId) {
        if let Err(error) = self.kill(id).await {
            let error = chain(&error);
            warn!(container = %id, error, "cannot stop a container whose limits could not be applied; it keeps running");
        }
    }

    /// The record of a container the caller names.
    pub(super) async fn known(&self, id: &str) -> Result<Arc<ContainerRecord>, ContainerError> {
        let missing = || ContainerError::NotFound { id: id.to_owned() };
        self.store.inspected(id).await?.container(id).map(Arc::clone).ok_or_else(missing)
    }

    /// The record of a container the caller names, if there is one; perhaps no more of it than the
    /// engine's list tells.
    pub(super) async fn find(
        &self,
        id: &str,
    ) -> Result<Option<Arc<ContainerRecord>>, ContainerError> {
        Ok(self.store.synced(SYNC_TIMEOUT).await?.container(id).map(Arc::clone))
    }

    /// The id of a container the caller names, if there is one.
    pub(super) async fn find_id(&self, id: &str) -> Result<Option<ContainerId>, ContainerError> {
        Ok(self.find(id).await?.map(|record| record.id.clone()))
    }
}
