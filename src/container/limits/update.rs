//! UpdateContainerResources.
//!
//! The engine is called first, then what it cannot set is written. After a failure, as after a
//! crash, limits that were set before it stay in force: the error names it, the status shows it,
//! and kubelet repeats the call.

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
    /// Changes limits of a container; what is not set in `asked` stays. For one that does not run
    /// they count from its start.
    ///
    /// # Errors
    /// The container is unknown, the limits cannot be expressed, the memory limit is below what is
    /// in use, or a limit was refused: then the error names those that were set before.
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

    /// [`Self::update`] that asks no plugin.
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

    /// Sets the limits of `plan`, until one is refused. The names of those that were set are added
    /// to `set`.
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
/// [`LimitError::InUse`]: shrinking would make the kernel end the container, or parts of it.
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
