//! Containers that CRI does not show: foreign ones, which are no part of a pod, and the pause
//! containers of pods. Foreign ones need no inspect; of all of them the images in use are known.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::inspect_queue::Generation;
use crate::model::{
    engine::{Claim, ListedContainer},
    id::{ImageId, SandboxId},
    record::{ForeignContainer, Observed},
};

/// All hidden containers, by id.
#[derive(Debug, Default)]
pub(super) struct HiddenContainers(HashMap<String, Hidden>);

#[derive(Debug)]
struct Hidden {
    /// No part of a pod: until the next list none of its events needs an inspect.
    foreign: bool,
    image: Option<ImageId>,
    joined: Option<SandboxId>,
    at: Generation,
}

impl HiddenContainers {
    /// Whether the container is known to be no part of a pod.
    pub(super) fn is_foreign(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|hidden| hidden.foreign)
    }

    /// Whether the container is one of these.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    pub(super) fn images(&self) -> HashSet<ImageId> {
        self.0.values().filter_map(|hidden| hidden.image.clone()).collect()
    }

    /// Foreign ones that have joined a network namespace, each with the owner of that.
    pub(super) fn joined(&self) -> BTreeSet<(SandboxId, String)> {
        let foreign = self.0.iter().filter(|(_, hidden)| hidden.foreign);
        foreign.filter_map(|(id, hidden)| Some((hidden.joined.clone()?, id.clone()))).collect()
    }

    /// An inspect found a foreign container. Returns whether the images in use changed.
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

    /// The container belongs to a pod after all.
    pub(super) fn set_owned(&mut self, id: &str) {
        if let Some(hidden) = self.0.get_mut(id) {
            hidden.foreign = false;
        }
    }

    /// Returns whether it was there and used an image.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        self.0.remove(id).is_some_and(|hidden| hidden.image.is_some())
    }

    /// Takes in a list that began at `since` and came in at `at`. What it lacks and was known before
    /// it began is gone; what was seen later may have been created after it. Returns whether the
    /// images in use changed.
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
            match one.claim {
                // It may have been renamed back: its inspect will follow.
                Claim::Workload => self.set_owned(&one.id),
                Claim::None | Claim::Other => {
                    let foreign = one.claim == Claim::None;
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

    /// Returns whether there was room.
    fn put(&mut self, id: &str, hidden: Hidden) -> bool {
        let has_room = self.0.len() < LIMIT || !hidden.foreign || self.contains(id);
        if has_room {
            self.0.insert(id.to_owned(), hidden);
        }
        has_room
    }
}

/// How many may be remembered; each event of one more costs an inspect.
const LIMIT: usize = 10_000;
