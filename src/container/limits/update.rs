//! UpdateContainerResources: all of the new limits, or all of the old ones.
//!
//! The engine is called first, then what it cannot set is written. Every step records how it is
//! undone; the first failure undoes the earlier ones. A crash in between leaves what the engine has
//! set, which the status shows; the call was never answered, so kubelet repeats it.

use tracing::{info, warn};

use super::{
    cgroup::{ContainerCgroup, blocking},
    error::LimitError,
};
use crate::{
    container::{error::ContainerError, service::Containers},
    engine::error::EngineError,
    error::chain,
    model::{id::ContainerId, record::ContainerRecord, resources::Resources},
    translate::plan::{
        cgroup_files::CgroupFile,
        error::PlanError,
        resources::oom_score_adj,
        update::{CpusetLists, Update, UpdateCall, update},
    },
};

impl Containers {
    /// Changes limits of a container; what is not set in `asked` stays. For one that does not run
    /// they count from its start.
    ///
    /// # Errors
    /// The container is unknown, the limits cannot be expressed, the memory limit is below what is
    /// in use, or a limit was refused: then the earlier ones are in force again, as far as the
    /// error does not say otherwise.
    pub async fn update(&self, id: &str, asked: Resources) -> Result<(), ContainerError> {
        let container = self.known(id).await?;
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
        let record = self.known(id.as_str()).await?;
        let asked = self.nri.update_container(&record, asked).await?;
        self.change_limits(id, asked).await?;
        self.nri.container_updated(id.as_str()).await;
        Ok(())
    }

    /// [`Self::update`] that asks no plugin.
    pub(in crate::container) async fn change_limits(
        &self,
        id: &ContainerId,
        mut asked: Resources,
    ) -> Result<(), ContainerError> {
        let _held = self.locks.write(id.as_str()).await;
        let now = self.store.snapshot();
        let missing = || ContainerError::NotFound { id: id.to_string() };
        let record = now.container(id.as_str()).ok_or_else(missing)?;
        if asked.oom_score_adj != 0 {
            asked.oom_score_adj = oom_score_adj(asked.oom_score_adj, self.oom_floor().await);
        }
        let requested = self.requested(record);
        let after = requested.updated(&asked);
        let engine = now.described()?;
        self.check_hugepages(&asked, engine).await?;
        let plan = update(&asked, &after, engine)?;
        let cgroup = self.cgroup(record).await;
        let before = limits_in_force(cgroup.clone(), &asked, requested, &plan).await?;
        let mut change = Change { service: self, record, cgroup, undo: Vec::new() };
        if let Err(cause) = change.make(&plan, &before, &after).await {
            let left = change.unmake().await;
            let cause = Box::new(cause);
            return Err(ContainerError::NotResized { id: id.to_string(), cause, left });
        }
        self.store.refresh_container(id.as_str()).await?;
        info!(container = %id, "limits changed");
        Ok(())
    }
}

/// What is in force before anything is changed.
///
/// # Errors
/// [`LimitError::InUse`]: shrinking would make the kernel end the container, or parts of it.
async fn limits_in_force(
    cgroup: Option<ContainerCgroup>,
    asked: &Resources,
    requested: Resources,
    plan: &Update,
) -> Result<Resources, ContainerError> {
    let Some(cgroup) = cgroup else { return Ok(requested) };
    let (limit, settings) = (asked.memory_limit, plan.files.clone());
    let read = move || {
        let used = cgroup.working_set().filter(|_| limit > 0);
        match used {
            Some(used) if used > limit => Err(LimitError::InUse { limit, used }),
            _ => Ok(cgroup.shown(&requested, &settings)),
        }
    };
    Ok(blocking(read).await??)
}

/// A change under way.
struct Change<'a> {
    service: &'a Containers,
    record: &'a ContainerRecord,
    /// None when it does not run, or where its group cannot be seen.
    cgroup: Option<ContainerCgroup>,
    undo: Vec<Back>,
}

/// A step back.
enum Back {
    Engine(Box<UpdateCall>),
    File(CgroupFile),
    Score(i64),
}

impl Change<'_> {
    async fn make(
        &mut self,
        plan: &Update,
        before: &Resources,
        after: &Resources,
    ) -> Result<(), ContainerError> {
        if let Some(call) = &plan.call {
            self.tell_engine(call, before).await?;
        }
        match self.cgroup.clone() {
            Some(cgroup) => {
                self.write(&cgroup, &plan.files).await?;
                self.score(&cgroup, after.oom_score_adj).await?;
            }
            None => self.service.nowhere(self.record, &plan.files).await?,
        }
        let earlier = self.service.requested(self.record);
        let ours =
            |all: &Resources| (all.unified.clone(), all.hugepage_limits.clone(), all.oom_score_adj);
        if ours(&earlier) != ours(after) {
            let saved = self.service.saved_changes.put_limits(&self.record.id, after).await;
            saved.map_err(|cause| LimitError::NotSaved { cause: cause.into() })?;
        }
        Ok(())
    }

    async fn tell_engine(
        &mut self,
        call: &UpdateCall,
        before: &Resources,
    ) -> Result<(), ContainerError> {
        let snapshot = self.service.store.snapshot();
        let back = call.revert(before, &self.lists().await?, snapshot.described()?);
        let updated =
            self.service.engine.update_container(self.record.id.as_str(), &call.body).await;
        // These refuse before anything is done.
        let untouched = matches!(
            updated,
            Err(EngineError::Rejected { .. }
                | EngineError::NotFound { .. }
                | EngineError::Unreachable { .. })
        );
        if !untouched {
            self.undo.push(Back::Engine(Box::new(back)));
        }
        Ok(updated?)
    }

    /// The CPUs and nodes it has now.
    async fn lists(&self) -> Result<CpusetLists, ContainerError> {
        let Some(cgroup) = self.cgroup.clone() else { return Ok(CpusetLists::default()) };
        let held = blocking(move || cgroup.limits()).await?;
        Ok(CpusetLists { cpus: held.cpus, mems: held.mems })
    }

    async fn write(
        &mut self,
        cgroup: &ContainerCgroup,
        settings: &[CgroupFile],
    ) -> Result<(), ContainerError> {
        let (seen, asked) = (cgroup.clone(), settings.to_vec());
        let read = move || -> Vec<(CgroupFile, Option<String>)> {
            let read = asked.into_iter().map(|setting| (seen.current(&setting), setting));
            let other = read.filter(|(now, setting)| now.as_ref() != Some(&setting.value));
            other.map(|(now, setting)| (setting, now)).collect()
        };
        let changed = blocking(read).await?;
        // systemd sets what it is sent at once, so the undo is recorded before.
        let held = changed.iter().filter_map(|(new, now)| Some(new.with_value(now.as_deref()?)));
        self.undo.extend(held.map(Back::File));
        let new: Vec<CgroupFile> = changed.into_iter().map(|(setting, _)| setting).collect();
        cgroup.tell_systemd(&new).await;
        // systemd, told of one file, may have set back others.
        let (cgroup, asked) = (cgroup.clone(), settings.to_vec());
        let set = move || cgroup.differing(asked).iter().try_for_each(|it| cgroup.set(it));
        Ok(blocking(set).await??)
    }

    async fn score(&mut self, cgroup: &ContainerCgroup, score: i64) -> Result<(), ContainerError> {
        let cgroup = cgroup.clone();
        let set = move || {
            let now = cgroup.score();
            (now, cgroup.set_score(score))
        };
        let (now, set) = blocking(set).await?;
        self.undo.extend(now.map(Back::Score));
        Ok(set?)
    }

    /// Goes back, the latest step first; what that did not manage, and nothing else is left undone
    /// for it.
    async fn unmake(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for step in std::mem::take(&mut self.undo).into_iter().rev() {
            if let Err(error) = self.step_back(step).await {
                let error = chain(&error);
                warn!(container = %self.record.id, error, "cannot restore a limit after a failed update; the container keeps the new one");
                left.push(error);
            }
        }
        let id = self.record.id.as_str();
        if let Err(error) = self.service.store.refresh_container(id).await {
            warn!(
                container = id,
                error = chain(&error),
                "cannot read the current limits of a container; its status may show old ones"
            );
        }
        left
    }

    async fn step_back(&self, step: Back) -> Result<(), ContainerError> {
        if let Back::Engine(call) = &step {
            let id = self.record.id.as_str();
            return Ok(self.service.engine.update_container(id, &call.body).await?);
        }
        let Some(cgroup) = self.cgroup.clone() else { return Ok(()) };
        if let Back::File(setting) = &step {
            cgroup.tell_systemd(std::slice::from_ref(setting)).await;
        }
        let set = move || match step {
            Back::File(setting) => cgroup.set(&setting),
            Back::Score(score) => cgroup.set_score(score),
            Back::Engine(_) => Ok(()),
        };
        Ok(blocking(set).await??)
    }
}
