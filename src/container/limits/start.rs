//! Limits that the engine cannot set: dockbridge sets them after the start of the container. If dockbridge crashes
//! before it has set these limits, it sets the missing cgroup limits when it runs again.
//!
//! At first the process runs without these limits, except for limits that dockbridge-runtime has set before the start.
//! If the kernel refuses a cgroup limit or lacks a required one, the start fails and the container is ended. If the
//! kernel does not have a limit that is not required ([`IfMissing`]), or does not permit the `oom_score_adj`, the
//! container starts nevertheless.

use tracing::warn;

use super::{
    cgroup::{ContainerCgroup, no_group},
    service::Limits,
};
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, chain},
    model::{id::ContainerId, record::ContainerRecord, resources::Resources},
    translate::limits::cgroup_files::{CgroupFile, IfMissing, cgroup_files},
};

impl Limits {
    /// Sets those limits of a running container that the engine does not set.
    pub(in crate::container) async fn apply(
        &self,
        record: &ContainerRecord,
    ) -> Result<(), Failure> {
        let requested = self.node.saved_changes.requested(record);
        let snapshot = self.node.store.snapshot();
        let settings = cgroup_files(&requested, snapshot.described()?)?;
        let score =
            Some(requested.oom_score_adj).filter(|score| *score != record.limits.oom_score_adj);
        if settings.is_empty() && score.is_none() {
            return Ok(());
        }
        let Some(cgroup) = self.cgroup(record).await else {
            return self.without_cgroup(record, &settings).await;
        };
        cgroup.write(&settings, &mut Vec::new()).await?;
        if let Some(score) = score {
            blocking(move || cgroup.set_score(score)).await?;
        }
        Ok(())
    }

    /// Whether the container needs limits that the engine does not set, apart from `oom_score_adj`.
    pub(in crate::container) fn are_needed(&self, record: &ContainerRecord) -> bool {
        let requested = self.node.saved_changes.requested(record);
        let (score, unset) = (requested.oom_score_adj, Resources::default());
        requested.with_observed(&unset) != Resources { oom_score_adj: score, ..unset }
    }

    /// Sets the missing limits of all running containers, for example after a crash of dockbridge or a reload of
    /// systemd. Skips a container whose cgroup files have all limits, even if its `oom_score_adj` differs.
    pub async fn restore(&self) {
        for record in self.node.store.snapshot().containers() {
            if record.process.is_running()
                && self.are_needed(record)
                && self.are_missing(record).await
                && let Err(error) = self.restore_one(&record.id).await
            {
                warn!(container = %record.id, error = chain(&error), "cannot set a missing limit; the container runs without the limit until a retry succeeds");
            }
        }
    }

    /// Reads the files without the container's lock, which a call may hold for long.
    async fn are_missing(&self, record: &ContainerRecord) -> bool {
        let Some(engine) = self.node.store.snapshot().engine.clone() else { return false };
        let Ok(settings) = cgroup_files(&self.node.saved_changes.requested(record), &engine) else {
            return false;
        };
        let Some(cgroup) = self.cgroup(record).await else { return false };
        !blocking(move || cgroup.differing(settings)).await.is_empty()
    }

    async fn restore_one(&self, id: &ContainerId) -> Result<(), Failure> {
        let _held = self.node.locks.write(id.as_str()).await;
        match self.node.store.snapshot().container(id.as_str()) {
            Some(record) if record.process.is_running() => self.apply(record).await,
            _ => Ok(()),
        }
    }

    /// The cgroup of a container. None if the container does not run, or if dockbridge cannot find the cgroup.
    pub(super) async fn cgroup(&self, record: &ContainerRecord) -> Option<ContainerCgroup> {
        let (pid, id) = (record.process.pid()?, record.id.clone());
        let cgroups = self.node.cgroups.clone();
        blocking(move || ContainerCgroup::of(&cgroups, pid, id.as_str())).await
    }

    /// Called if no cgroup was found. Fails if the inspect fails, or if the container still runs and one of `settings`
    /// is required.
    pub(super) async fn without_cgroup(
        &self,
        record: &ContainerRecord,
        settings: &[CgroupFile],
    ) -> Result<(), Failure> {
        self.node.store.refresh_container(record.id.as_str()).await?;
        let now = self.node.store.snapshot();
        let asked = settings.iter().find(|setting| setting.if_missing == IfMissing::Fail);
        match asked {
            Some(setting) if now.runs(record.id.as_str()) => Err(no_group(setting)),
            _ => Ok(()),
        }
    }
}
