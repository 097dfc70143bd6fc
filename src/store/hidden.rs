//! Containers that CRI does not show, strangers' and pods' pauses: what is to be remembered of them
//! is that nobody has to look again, and which images they hold.

use std::collections::{HashMap, HashSet};

use super::look::Ticket;
use crate::model::{
    engine::{Claim, ListedContainer},
    id::ImageId,
};

/// All that are known, by id.
#[derive(Debug, Default)]
pub(super) struct Hidden(HashMap<String, Known>);

#[derive(Debug)]
struct Known {
    /// Nobody's pod: until the next list nothing that happens to it is worth a look.
    foreign: bool,
    image: Option<ImageId>,
    at: Ticket,
}

impl Hidden {
    /// Whether the container is known to be nobody's pod.
    pub(super) fn is_foreign(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|known| known.foreign)
    }

    /// Whether anything is known of the container.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The images they hold.
    pub(super) fn images(&self) -> HashSet<ImageId> {
        self.0.values().filter_map(|known| known.image.clone()).collect()
    }

    /// A look saw a stranger. Whether he holds another image than he was known to.
    pub(super) fn see(&mut self, id: &str, image: Option<ImageId>, at: Ticket) -> bool {
        let held = self.0.get(id).and_then(|known| known.image.as_ref());
        let other = held != image.as_ref();
        self.put(id, Known { foreign: true, image, at }) && other
    }

    /// A look saw that the container is a pod's, pause or otherwise, after all.
    pub(super) fn own(&mut self, id: &str) {
        if let Some(known) = self.0.get_mut(id) {
            known.foreign = false;
        }
    }

    /// Whether it was there, and held an image.
    pub(super) fn lose(&mut self, id: &str) -> bool {
        self.0.remove(id).is_some_and(|known| known.image.is_some())
    }

    /// Takes in a list that began after `since` and came in at `at`. The end of whom it lacks was
    /// missed, if he was known before it began; who was seen later may have been made after it.
    /// Whether other images are held now.
    pub(super) fn list(&mut self, listed: &[&ListedContainer], since: Ticket, at: Ticket) -> bool {
        let before = self.images();
        let there: HashSet<&str> = listed.iter().map(|one| one.id.as_str()).collect();
        self.0.retain(|id, known| known.at > since || there.contains(id.as_str()));
        for one in listed {
            match one.claim {
                // Its look is to come: somebody may have given it back its name.
                Claim::Workload => self.own(&one.id),
                Claim::None | Claim::Other => {
                    let foreign = one.claim == Claim::None;
                    self.put(&one.id, Known { foreign, image: one.image.clone(), at });
                }
            }
        }
        before != self.images()
    }

    /// Whether there was room.
    fn put(&mut self, id: &str, known: Known) -> bool {
        let room = self.0.len() < LIMIT || !known.foreign || self.knows(id);
        if room {
            self.0.insert(id.to_owned(), known);
        }
        room
    }
}

/// How many strangers there may be; one more costs an inspect for each of his events.
const LIMIT: usize = 10_000;
