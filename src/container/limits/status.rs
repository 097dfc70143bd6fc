//! What a status says of limits: what the kernel holds, where there is something to be held.

use std::time::Duration;

use tokio::{task::spawn_blocking, time::timeout};

use super::place::Place;
use crate::{
    container::service::Containers,
    model::{record::ContainerRecord, resources::Resources},
    translate::plan::cgroup_files::cgroup_files,
};

impl Containers {
    /// The limits in force; of a container that does not run, those it would start with. None
    /// when nobody ever asked for any. Never asks the engine.
    pub async fn limits(&self, record: &ContainerRecord) -> Option<Resources> {
        let wished = self.wished(record);
        let spoken = Resources { oom_score_adj: 0, ..wished.clone() } != Resources::default();
        if !spoken && !record.document.spec.resources_stated {
            return None;
        }
        let (Some(pid), Some(engine)) = (record.process.pid(), &self.store.snapshot().engine)
        else {
            return Some(wished);
        };
        // Keys that cannot be had were refused when they were asked for.
        let settings = cgroup_files(&wished, engine).unwrap_or_default();
        let known = Place::remembered(&self.cgroups, pid, record.id.as_str());
        if let Some(shown) = known.and_then(|place| place.shown_now(&wished, &settings)) {
            return Some(shown);
        }
        let (cgroups, id, asked) = (self.cgroups.clone(), record.id.clone(), wished.clone());
        let look = move || {
            let place = Place::of(&cgroups, pid, id.as_str())?;
            Some(place.shown(&asked, &settings))
        };
        let seen = timeout(PATIENCE, spawn_blocking(look)).await;
        Some(seen.ok().and_then(Result::ok).flatten().unwrap_or(wished))
    }
}

/// The kernel answers at once unless it is busy making or removing groups; kubelet does not wait.
const PATIENCE: Duration = Duration::from_millis(500);
