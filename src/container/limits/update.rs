//! UpdateContainerResources.
//!
//! dockbridge calls the engine first and then sets what the engine cannot set. After a failure or a crash, the limits
//! that are already set stay, and kubelet repeats the call.

use serde_json::Value;
use tracing::info;

use super::{cgroup::ContainerCgroup, hugepages::check_hugepages, service::Limits};
use crate::{
    concurrency::blocking::blocking,
    container::node::unknown_container,
    error::Failure,
    model::{id::ContainerId, record::ContainerRecord, resources::Resources},
    translate::{
        limits::docker::{Update, oom_score_adj, update},
        plan::labels::encoded,
    },
};

impl Limits {
    /// Changes the limits that are set in `asked`. If the container has not started yet, they apply from its start.
    ///
    /// # Errors
    /// The container is unknown, an NRI plugin refuses, the limits contradict each other, the memory limit is
    /// below the working set, a limit cannot be set or saved, or the inspect after the change fails. Only the error
    /// for a limit that cannot be set or saved names limits that the call has already set or ignored.
    pub async fn update(&self, id: &str, asked: Resources) -> Result<(), Failure> {
        let container = self.node.container(id).await?;
        if asked == Resources::default() {
            return Ok(());
        }
        let key = encoded(&asked)?;
        let (service, id) = (self.clone(), container.id.clone());
        self.updating
            .run((id.clone(), key), async move { service.update_known(&id, asked).await })
            .await?
    }

    async fn update_known(&self, id: &ContainerId, asked: Resources) -> Result<(), Failure> {
        let record = self.node.container(id.as_str()).await?;
        let asked = self.node.nri.update_container(&record, asked).await?;
        self.change(id, asked).await?;
        self.node.nri.container_updated(id.as_str()).await;
        Ok(())
    }

    /// [`Self::update`] without NRI plugins.
    pub(in crate::container) async fn change(
        &self,
        id: &ContainerId,
        mut asked: Resources,
    ) -> Result<(), Failure> {
        let _held = self.node.locks.write(id.as_str()).await;
        let now = self.node.store.snapshot();
        let record = now.container(id.as_str()).ok_or_else(|| unknown_container(id.as_str()))?;
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
        outcome.map_err(|cause| {
            // `set` names limits that this call has already set or ignored: Docker's names or CRI's fields.
            let set = set.join(", ");
            let set = if set.is_empty() {
                set
            } else {
                format!("; this call has already set or ignored: {set}")
            };
            let text = format!("cannot change the limits of container {id}: {cause}{set}");
            Failure::new(cause.kind(), text)
        })?;
        refreshed?;
        info!(container = %id, "limits changed");
        Ok(())
    }

    /// Sets the limits of `plan` until one is refused. Adds to `set` names of limits that it has set or ignored.
    async fn set(
        &self,
        record: &ContainerRecord,
        plan: &Update,
        after: &Resources,
        set: &mut Vec<String>,
    ) -> Result<(), Failure> {
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
        if after.with_observed(&requested) != requested {
            let saved = self.node.saved_changes.put_limits(&record.id, after).await;
            saved.map_err(|cause| Failure::from(cause).within("cannot save the limits"))?;
        }
        Ok(())
    }
}

/// Refuses a memory limit below the working set, because the kernel might end processes of the container.
async fn check_memory_in_use(cgroup: Option<ContainerCgroup>, limit: i64) -> Result<(), Failure> {
    let Some(cgroup) = cgroup.filter(|_| limit > 0) else { return Ok(()) };
    match blocking(move || cgroup.group.working_set()).await {
        Some(used) if used > limit => Err(Failure::unmet(format!(
            "linux.memory_limit_in_bytes: {limit} is less than the container's working set of {used} bytes"
        ))),
        _ => Ok(()),
    }
}
