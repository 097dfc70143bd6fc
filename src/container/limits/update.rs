//! UpdateContainerResources.
//!
//! dockbridge calls the engine first and then sets what the engine cannot set. After a failure or a crash, limits
//! that were set before stay: the error names them, the status shows them, and kubelet repeats the call.

use serde_json::Value;
use tracing::info;

use super::{
    cgroup::ContainerCgroup, error::LimitError, hugepages::check_hugepages, service::Limits,
};
use crate::{
    concurrency::blocking::blocking,
    container::error::ContainerError,
    model::{id::ContainerId, record::ContainerRecord, resources::Resources},
    translate::{
        limits::docker::{Update, oom_score_adj, update},
        plan::error::PlanError,
    },
};

impl Limits {
    /// Changes limits of a container. Limits that are not set in `asked` stay. If the container does not run,
    /// they apply from its next start.
    ///
    /// # Errors
    /// The container is unknown, the limits contradict each other, the memory limit is below the memory in
    /// use, or a limit was refused. In the last case the error names the limits that were set before.
    pub async fn update(&self, id: &str, asked: Resources) -> Result<(), ContainerError> {
        let container = self.node.container(id).await?;
        if asked == Resources::default() {
            return Ok(());
        }
        let key = serde_json::to_string(&asked).map_err(PlanError::from)?;
        let (service, id) = (self.clone(), container.id.clone());
        self.updating
            .run((id.clone(), key), async move { service.update_known(&id, asked).await })
            .await?
    }

    async fn update_known(&self, id: &ContainerId, asked: Resources) -> Result<(), ContainerError> {
        let record = self.node.container(id.as_str()).await?;
        let asked = self.node.nri.update_container(&record, asked).await?;
        self.change(id, asked).await?;
        self.node.nri.container_updated(id.as_str()).await;
        Ok(())
    }

    /// [`Self::update`] without plugins.
    pub(in crate::container) async fn change(
        &self,
        id: &ContainerId,
        mut asked: Resources,
    ) -> Result<(), ContainerError> {
        let _held = self.node.locks.write(id.as_str()).await;
        let now = self.node.store.snapshot();
        let missing = || ContainerError::NotFound { id: id.to_string() };
        let record = now.container(id.as_str()).ok_or_else(missing)?;
        if asked.oom_score_adj != 0 {
            asked.oom_score_adj = oom_score_adj(asked.oom_score_adj, self.node.oom_floor().await);
        }
        let requested = self.node.saved_changes.requested(record);
        let after = requested.updated(&asked);
        let engine = now.described()?;
        check_hugepages(&self.node.cgroups, &asked, engine).await?;
        let plan = update(&asked, &after, engine)?;
        check_memory_in_use(self.cgroup(record).await, asked.memory_limit).await?;
        let mut set = Vec::new();
        let outcome = self.set(record, &plan, &after, &mut set).await;
        let refreshed = self.node.store.refresh_container(id.as_str()).await;
        if let Err(cause) = outcome {
            let cause = Box::new(cause);
            return Err(ContainerError::NotResized { id: id.to_string(), cause, set });
        }
        refreshed?;
        info!(container = %id, "limits changed");
        Ok(())
    }

    /// Sets the limits of `plan` until one is refused. Adds to `set` the names of these limits.
    async fn set(
        &self,
        record: &ContainerRecord,
        plan: &Update,
        after: &Resources,
        set: &mut Vec<String>,
    ) -> Result<(), ContainerError> {
        if let Some(body) = &plan.body {
            self.node.engine.update_container(record.id.as_str(), body).await?;
            if let Ok(Value::Object(fields)) = serde_json::to_value(body) {
                set.extend(fields.into_iter().map(|(name, _)| name));
            }
        }
        match self.cgroup(record).await {
            Some(cgroup) => {
                cgroup.write(&plan.files, set).await?;
                let score = after.oom_score_adj;
                blocking(move || cgroup.set_score(score)).await?;
            }
            None => self.without_cgroup(record, &plan.files).await?,
        }
        let requested = self.node.saved_changes.requested(record);
        if after.beside(&requested) != requested {
            let saved = self.node.saved_changes.put_limits(&record.id, after).await;
            saved.map_err(|cause| LimitError::NotSaved { cause: cause.into() })?;
        }
        Ok(())
    }
}

/// # Errors
/// [`LimitError::InUse`]: with this limit the kernel would end processes of the container.
async fn check_memory_in_use(
    cgroup: Option<ContainerCgroup>,
    limit: i64,
) -> Result<(), ContainerError> {
    let Some(cgroup) = cgroup.filter(|_| limit > 0) else { return Ok(()) };
    match blocking(move || cgroup.working_set()).await {
        Some(used) if used > limit => Err(LimitError::InUse { limit, used }.into()),
        _ => Ok(()),
    }
}
