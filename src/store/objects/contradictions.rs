//! Containers of which a list says another state than is shown.

use std::collections::HashMap;

use crate::{model::record::ListedState, store::inspect_queue::Generation};

/// Their state in the last list, and when it began; by id.
#[derive(Debug, Default)]
pub(super) struct Contradictions(HashMap<String, (ListedState, Generation)>);

impl Contradictions {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn insert(&mut self, id: &str, listed: ListedState, since: Generation) {
        self.0.insert(id.to_owned(), (listed, since));
    }

    /// Takes the state of a container in a list that began before `at`.
    pub(super) fn take_before(
        &mut self,
        id: &str,
        at: Generation,
    ) -> Option<(ListedState, Generation)> {
        let (_, since) = self.0.get(id)?;
        if *since < at { self.0.remove(id) } else { None }
    }
}
