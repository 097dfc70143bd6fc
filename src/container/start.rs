//! StartContainer: starts a container, sets limits that the engine cannot set, and begins to write its log
//! or links Docker's log file.

use tracing::{info, warn};

use super::{
    node::sandbox_not_ready,
    service::Containers,
    start_once::{start_once, was_started},
};
use crate::{
    error::{Failure, chain},
    model::{
        engine::EngineHealth,
        id::ContainerId,
        record::{ContainerRecord, ExitReason, Process, SandboxState},
    },
};

impl Containers {
    /// Starts a container whose command has never run, in a ready pod. Concurrent calls for a container share one
    /// start.
    ///
    /// # Errors
    /// The container is unknown or an earlier call has started it successfully, the pod is not ready, or a step of the
    /// start fails.
    pub async fn start(&self, id: &str) -> Result<(), Failure> {
        let container = self.node.container(id).await?;
        let service = self.clone();
        let key = container.id.clone();
        self.starting.run(key, async move { service.start_known(&container).await }).await?
    }

    async fn start_known(&self, container: &ContainerRecord) -> Result<(), Failure> {
        let id = container.id.as_str();
        let _sandbox = self.node.locks.read(container.document.sandbox.as_str()).await;
        let _held = self.node.locks.write(id).await;
        let is_unseen = self.unseen_starts.lock().contains(&container.id);
        if is_unseen || self.node.store.snapshot().health != EngineHealth::Reachable {
            self.node.store.refresh_container(id).await?;
        }
        let container = &*self.node.container(id).await?;
        // If an earlier call started the container but could not inspect it, this call succeeds without another start.
        let is_done = is_unseen && was_started(&self.node.store.snapshot(), id);
        let started = if is_done { Ok(()) } else { self.start_created(container).await };
        if container.document.restore.is_some()
            && (started.is_ok() || !self.unseen_starts.lock().contains(&container.id))
        {
            // After a failed start, the next start unpacks the archive again.
            self.node.oci_runtime_files.remove_restore(id).await;
        }
        started?;
        self.unseen_starts.lock().remove(&container.id);
        if let Some(record) = self.node.store.snapshot().container(id)
            && let Err(error) = self.limits.apply(record).await
        {
            // A container without its requested limits must not run.
            self.end_unlimited(&record.id).await;
            return Err(error);
        }
        info!(container = id, name = container.name, "container started");
        if let Some(record) = self.node.store.snapshot().container(id)
            && let Err(error) = self.node.logs.started(record).await
        {
            warn!(
                container = id,
                error = chain(&error),
                "cannot make the link to Docker's log file; kubectl logs will not show the log"
            );
        }
        Ok(())
    }

    async fn start_created(&self, container: &ContainerRecord) -> Result<(), Failure> {
        let id = container.id.as_str();
        self.ensure_startable(container).await?;
        let _mounted = self.node.ensure_mounted(&container.document).await?;
        let restoring = self.node.unpack_restore(container).await?;
        self.node.write_edits(container).await?;
        self.node.nri.start_container(container).await?;
        self.unseen_starts.lock().insert(container.id.clone());
        let start = start_once(&self.node, id, restoring).await;
        if start.seen.is_ok() {
            self.unseen_starts.lock().remove(&container.id);
        }
        self.node.nri.container_started(id, start.started.is_ok()).await;
        if start.may_run_unseen() && self.limits.are_needed(container) {
            self.end_unlimited(&container.id).await;
        }
        start.started?;
        start.seen
    }

    async fn ensure_startable(&self, container: &ContainerRecord) -> Result<(), Failure> {
        match &container.process {
            // A container whose command could not run may be started again, because the command has never run.
            Process::Created | Process::Exited { reason: ExitReason::CannotRun, .. } => {}
            process => {
                return Err(Failure::unmet(format!(
                    "container {} is {}; only a container that has never run can be started",
                    container.id,
                    process.state_name()
                )));
            }
        }
        let sandbox = &container.document.sandbox;
        let now = self.node.store.inspected(sandbox.as_str()).await?;
        match now.sandbox(sandbox.as_str()).map(|pod| pod.state()) {
            Some(SandboxState::Ready) => Ok(()),
            _ => Err(sandbox_not_ready(sandbox)),
        }
    }

    async fn end_unlimited(&self, id: &ContainerId) {
        if let Err(error) = self.kill(id.as_str()).await {
            warn!(container = %id, error = chain(&error), "cannot confirm that a container whose limits were not set has ended; the container may keep running");
        }
    }
}
