//! The limits in a container's status. For a running container, dockbridge reads the limits from the container's
//! cgroup, or shows the requested limits if it cannot read the cgroup in time.

use std::time::Duration;

use tokio::time::timeout;

use super::{cgroup::ContainerCgroup, service::Limits};
use crate::{
    concurrency::blocking::blocking,
    model::{record::ContainerRecord, resources::Resources},
    translate::limits::cgroup_files::cgroup_files,
};

impl Limits {
    /// The current limits of a running container, otherwise the requested limits. None if the create request had no
    /// Linux resources and no limit apart from `oom_score_adj` was requested later. Does not call the engine.
    pub async fn shown(&self, record: &ContainerRecord) -> Option<Resources> {
        let requested = self.node.saved_changes.requested(record);
        let has_limits =
            Resources { oom_score_adj: 0, ..requested.clone() } != Resources::default();
        if !has_limits && !record.document.spec.resources_stated {
            return None;
        }
        let (Some(pid), Some(engine)) = (record.process.pid(), &self.node.store.snapshot().engine)
        else {
            return Some(requested);
        };
        // `cgroup_files` cannot fail here, because unsupported keys were refused when they were requested.
        let settings = cgroup_files(&requested, engine).unwrap_or_default();
        let known = ContainerCgroup::cached(&self.node.cgroups, pid, record.id.as_str());
        if let Some(shown) = known.and_then(|cgroup| cgroup.shown(&requested, &settings)) {
            return Some(shown);
        }
        let (cgroups, id, asked) =
            (self.node.cgroups.clone(), record.id.clone(), requested.clone());
        let read =
            move || ContainerCgroup::of(&cgroups, pid, id.as_str())?.shown(&asked, &settings);
        let shown = timeout(TIMEOUT, blocking(read)).await;
        Some(shown.ok().flatten().unwrap_or(requested))
    }
}

/// How long to wait for cgroup files, before the status shows the requested limits. The files are slow to read while
/// the kernel creates or removes many cgroups.
const TIMEOUT: Duration = Duration::from_millis(500);
