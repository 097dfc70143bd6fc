//! Why containers ended, and whether the causes that the engine does not know are saved.

use std::collections::{BTreeMap, HashMap};

use crate::model::{id::ContainerId, time::Nanos};

/// Why a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ExitCause {
    /// The kernel killed it because memory ran out.
    OutOfMemory,
    /// As the engine reports it.
    AsReported,
}

/// The cause of the last end of each container.
#[derive(Debug, Default)]
pub(super) struct ExitCauses {
    /// With the time of the end.
    by_id: HashMap<String, (Nanos, ExitCause)>,
    /// How many causes that the engine does not know were added or removed.
    changes: usize,
    /// How many of these changes are saved.
    saved: usize,
}

impl ExitCauses {
    /// The causes that an earlier process saved.
    pub(super) fn loaded(kills: BTreeMap<ContainerId, Nanos>) -> Self {
        let kills =
            kills.into_iter().map(|(id, at)| (String::from(id), (at, ExitCause::OutOfMemory)));
        Self { by_id: kills.collect(), ..Self::default() }
    }

    /// The cause of this end.
    pub(super) fn of(&self, id: &str, end: Nanos) -> Option<ExitCause> {
        let (_, cause) = self.by_id.get(id).filter(|(at, _)| *at == end)?;
        Some(*cause)
    }

    pub(super) fn put(&mut self, id: &str, cause: (Nanos, ExitCause)) {
        let before = self.by_id.insert(id.to_owned(), cause);
        let kills = [before, Some(cause)].iter().flatten().filter(|one| is_oom(one)).count();
        self.changed(kills);
    }

    pub(super) fn forget(&mut self, id: &str) {
        let before = self.by_id.remove(id);
        self.changed(usize::from(before.as_ref().is_some_and(is_oom)));
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        let kills = |of: &Self| of.by_id.values().filter(|one| is_oom(one)).count();
        let before = kills(self);
        self.by_id.retain(|id, _| keeps(id));
        self.changed(before - kills(self));
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    pub(super) const fn is_saved(&self) -> bool {
        self.changes == self.saved
    }

    /// What must be saved, and the argument for the call of [`Self::saved`] after that. None if everything
    /// is saved.
    pub(super) fn unsaved(&self) -> Option<(BTreeMap<ContainerId, Nanos>, usize)> {
        if self.is_saved() {
            return None;
        }
        let killed = self.by_id.iter().filter(|(_, one)| is_oom(one));
        let kills = killed.filter_map(|(id, (at, _))| Some((id.as_str().try_into().ok()?, *at)));
        Some((kills.collect(), self.changes))
    }

    /// All changes up to this number are saved.
    pub(super) const fn saved(&mut self, changes: usize) {
        self.saved = changes;
    }

    fn changed(&mut self, kills: usize) {
        self.changes = self.changes.wrapping_add(kills);
    }
}

/// Whether only dockbridge knows the cause.
fn is_oom((_, cause): &(Nanos, ExitCause)) -> bool {
    *cause == ExitCause::OutOfMemory
}
