//! Containers that ListContainers does not show: foreign containers, which belong to no pod, and pause
//! containers. This module records which images hidden containers use, and which pods' network namespaces foreign
//! containers have joined.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::inspect_queue::Generation;
use crate::model::{
    engine::{ListedContainer, Ownership},
    id::{ImageId, SandboxId},
    record::{ForeignContainer, Observed},
};

#[derive(Debug, Default)]
pub(super) struct HiddenContainers(HashMap<String, Hidden>);

#[derive(Debug)]
struct Hidden {
    foreign: bool,
    image: Option<ImageId>,
    joined: Option<SandboxId>,
    at: Generation,
}

impl HiddenContainers {
    /// Whether dockbridge knows that the container does not belong to a pod.
    pub(super) fn is_foreign(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|hidden| hidden.foreign)
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    pub(super) fn images(&self) -> HashSet<ImageId> {
        self.0.values().filter_map(|hidden| hidden.image.clone()).collect()
    }

    /// Pairs of a sandbox and a foreign container that has joined the sandbox's network namespace.
    pub(super) fn joined(&self) -> BTreeSet<(SandboxId, String)> {
        let foreign = self.0.iter().filter(|(_, hidden)| hidden.foreign);
        foreign.filter_map(|(id, hidden)| Some((hidden.joined.clone()?, id.clone()))).collect()
    }

    /// Records a foreign container after an inspect, if there is room. Returns whether its stored image or joined
    /// sandbox has changed.
    pub(super) fn set_foreign(
        &mut self,
        id: &str,
        container: ForeignContainer,
        at: Generation,
    ) -> bool {
        let ForeignContainer { image, joined } = container;
        let known = self.0.get(id).map(|known| (known.image.clone(), known.joined.clone()));
        let changed = known.unwrap_or_default() != (image.clone(), joined.clone());
        self.put(id, Hidden { foreign: true, image, joined, at }) && changed
    }

    /// Records that a known container belongs to a pod, so that it no longer counts as foreign.
    pub(super) fn set_owned(&mut self, id: &str) {
        if let Some(hidden) = self.0.get_mut(id) {
            hidden.foreign = false;
        }
    }

    /// Removes a container. Returns whether the container was known and used an image.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        self.0.remove(id).is_some_and(|hidden| hidden.image.is_some())
    }

    /// Merges a list of the engine that began at `since` and arrived at `at`. A container that is not in the
    /// list is gone, unless dockbridge has seen it since the list began: it may be newer than the list.
    /// Returns whether the used images or joined sandboxes have changed.
    pub(super) fn list(
        &mut self,
        listed: &[&ListedContainer],
        since: Generation,
        at: Generation,
    ) -> bool {
        let before = (self.images(), self.joined());
        let present: HashSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
        self.0.retain(|id, hidden| hidden.at > since || present.contains(id.as_str()));
        for one in listed {
            match one.ownership {
                // The container may have been renamed back to its name in the pod. An inspect will follow.
                Ownership::Workload => self.set_owned(&one.id),
                Ownership::None | Ownership::Other => {
                    let foreign = one.ownership == Ownership::None;
                    let joined = match one.observed.as_deref() {
                        Some(Observed::Foreign(container)) => container.joined.clone(),
                        _ => None,
                    };
                    self.put(&one.id, Hidden { foreign, image: one.image.clone(), joined, at });
                }
            }
        }
        before != (self.images(), self.joined())
    }

    /// Stores a container. Returns false, and does not store the container, if the container is new and foreign
    /// and too many are stored.
    fn put(&mut self, id: &str, hidden: Hidden) -> bool {
        let has_room = self.0.len() < LIMIT || !hidden.foreign || self.contains(id);
        if has_room {
            self.0.insert(id.to_owned(), hidden);
        }
        has_room
    }
}

/// If this many containers are stored, further foreign containers are not stored. Events that report changes of a
/// foreign container that is not stored cause inspects.
const LIMIT: usize = 10_000;
