//! What ends were found to be, and whether what the engine does not know of that is stored.

use std::collections::{BTreeMap, HashMap};

use crate::model::{id::ContainerId, time::Nanos};

/// What an end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Verdict {
    /// The kernel killed for lack of memory.
    NoMemory,
    /// What the engine says.
    AsTold,
}

/// The last verdict of each container.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// With the end it is about.
    by_id: HashMap<String, (Nanos, Verdict)>,
    /// How often there was one more or less that the engine does not know.
    changes: usize,
    /// How often until they were stored last.
    saved: usize,
}

impl Verdicts {
    /// Those that an earlier run stored.
    pub(super) fn stored(kills: BTreeMap<ContainerId, Nanos>) -> Self {
        let kills = kills.into_iter().map(|(id, at)| (String::from(id), (at, Verdict::NoMemory)));
        Self { by_id: kills.collect(), ..Self::default() }
    }

    /// Of this end.
    pub(super) fn of(&self, id: &str, end: Nanos) -> Option<Verdict> {
        let (_, verdict) = self.by_id.get(id).filter(|(at, _)| *at == end)?;
        Some(*verdict)
    }

    pub(super) fn decide(&mut self, id: &str, verdict: (Nanos, Verdict)) {
        let before = self.by_id.insert(id.to_owned(), verdict);
        let kills = [before, Some(verdict)].iter().flatten().filter(|one| is_kill(one)).count();
        self.changed(kills);
    }

    pub(super) fn forget(&mut self, id: &str) {
        let before = self.by_id.remove(id);
        self.changed(usize::from(before.as_ref().is_some_and(is_kill)));
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        let kills = |of: &Self| of.by_id.values().filter(|one| is_kill(one)).count();
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

    /// What is to be stored, and what to call [`Self::saved`] with once it is; none if all is.
    pub(super) fn unsaved(&self) -> Option<(BTreeMap<ContainerId, Nanos>, usize)> {
        if self.is_saved() {
            return None;
        }
        let killed = self.by_id.iter().filter(|(_, one)| is_kill(one));
        let kills = killed.filter_map(|(id, (at, _))| Some((id.as_str().try_into().ok()?, *at)));
        Some((kills.collect(), self.changes))
    }

    /// Everything up to this change is stored.
    pub(super) const fn saved(&mut self, changes: usize) {
        self.saved = changes;
    }

    fn changed(&mut self, kills: usize) {
        self.changes = self.changes.wrapping_add(kills);
    }
}

/// Whether it is what the engine does not know.
fn is_kill((_, verdict): &(Nanos, Verdict)) -> bool {
    *verdict == Verdict::NoMemory
}
