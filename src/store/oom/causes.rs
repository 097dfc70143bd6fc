//! Why containers ended, and which of these causes dockbridge must save.

use std::collections::{BTreeMap, HashMap};

use crate::model::{id::ContainerId, time::Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ExitCause {
    /// The kernel killed the container because its memory ran out, and the engine's inspect does not report this.
    OutOfMemory,
    /// The cause is the one that the engine reports.
    AsReported,
}

/// The known causes of the last ends of containers.
#[derive(Debug, Default)]
pub(super) struct ExitCauses {
    by_id: HashMap<String, (Nanos, ExitCause)>,
    /// Whether a save is needed, because the causes to save have changed or the last save has failed.
    pub(super) is_unsaved: bool,
}

impl ExitCauses {
    /// The causes that an earlier dockbridge process saved.
    pub(super) fn loaded(kills: BTreeMap<ContainerId, Nanos>) -> Self {
        let kills =
            kills.into_iter().map(|(id, at)| (String::from(id), (at, ExitCause::OutOfMemory)));
        Self { by_id: kills.collect(), ..Self::default() }
    }

    pub(super) fn of(&self, id: &str, end: Nanos) -> Option<ExitCause> {
        let (_, cause) = self.by_id.get(id).filter(|(at, _)| *at == end)?;
        Some(*cause)
    }

    pub(super) fn put(&mut self, id: &str, cause: (Nanos, ExitCause)) {
        let before = self.by_id.insert(id.to_owned(), cause);
        self.is_unsaved |= is_oom(&cause) || before.as_ref().is_some_and(is_oom);
    }

    pub(super) fn forget(&mut self, id: &str) {
        let before = self.by_id.remove(id);
        self.is_unsaved |= before.as_ref().is_some_and(is_oom);
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.by_id.retain(|id, cause| {
            let is_kept = keeps(id);
            self.is_unsaved |= !is_kept && is_oom(cause);
            is_kept
        });
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    /// The causes to save, if they have changed. If the save fails, the caller must set [`Self::is_unsaved`].
    pub(super) fn take_unsaved(&mut self) -> Option<BTreeMap<ContainerId, Nanos>> {
        std::mem::take(&mut self.is_unsaved).then(|| {
            let killed = self.by_id.iter().filter(|(_, one)| is_oom(one));
            killed.filter_map(|(id, (at, _))| Some((id.as_str().try_into().ok()?, *at))).collect()
        })
    }
}

/// Whether dockbridge must save the cause, because inspects do not report it.
fn is_oom((_, cause): &(Nanos, ExitCause)) -> bool {
    *cause == ExitCause::OutOfMemory
}
