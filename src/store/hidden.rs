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
    /// Nobody's pod. Labels never change, so one look is enough.
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

    /// A look saw a stranger. Whether he holds an image.
    pub(super) fn see(&mut self, id: &str, image: Option<ImageId>, at: Ticket) -> bool {
        let holds = image.is_some();
        self.put(id, true, image, at);
        holds
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
        for one in listed.iter().filter(|one| one.claim != Claim::Workload) {
            self.put(&one.id, one.claim == Claim::None, one.image.clone(), at);
        }
        before != self.images()
    }

    fn put(&mut self, id: &str, foreign: bool, image: Option<ImageId>, at: Ticket) {
        if self.0.len() < LIMIT {
            self.0.insert(id.to_owned(), Known { foreign, image, at });
        }
    }
}

/// How many are remembered; one more costs an inspect for each of its events.
const LIMIT: usize = 10_000;
