//! Control groups that were found. The search for one waits for whoever makes or removes groups;
//! reading the files of one that is known does not, and costs a fraction.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::place::Place;
use crate::{model::id::ContainerId, store::snapshot::Snapshot};

/// Groups of containers that run. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::container) struct Places(Arc<Mutex<HashMap<ContainerId, Arc<Place>>>>);

impl Places {
    /// Where the container was found, as long as its main process is this one.
    pub(super) fn of(&self, id: &ContainerId, pid: u32) -> Option<Arc<Place>> {
        self.known().get(id).filter(|place| place.is_of(pid)).cloned()
    }

    /// It was found here.
    pub(super) fn note(&self, id: ContainerId, place: Arc<Place>) {
        self.known().insert(id, place);
    }

    /// It is no longer there.
    pub(super) fn forget(&self, id: &ContainerId) {
        self.known().remove(id);
    }

    /// Forgets what does not run any more.
    pub(in crate::container) fn keep(&self, now: &Snapshot) {
        let runs = |id: &ContainerId| {
            now.container(id.as_str()).is_some_and(|one| one.process.is_running())
        };
        self.known().retain(|id, _| runs(id));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ContainerId, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    //! A remembered place remembers no limit.

    use std::fs;

    use super::*;
    use crate::{host::cgroup::Cgroups, model::resources::Resources};

    const ID: &str = "4f5c1e9d8b7a6f5e4d3c2b1a09f8e7d6c5b4a3928170f6e5d4c3b2a190817263";

    #[test]
    fn a_known_group_is_told_as_it_is_now() {
        let root = tempfile::tempdir().unwrap();
        let (proc, point) = (root.path().join("proc"), root.path().join("cg"));
        let group = point.join(ID);
        for folder in [proc.join("self"), proc.join("42"), group.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        let table = format!("33 31 0:29 / {} rw - cgroup2 cgroup2 rw\n", point.display());
        fs::write(proc.join("self/mountinfo"), table).unwrap();
        fs::write(proc.join("42/cgroup"), format!("0::/{ID}\n")).unwrap();
        let limit = |bytes: i64| fs::write(group.join("memory.max"), bytes.to_string()).unwrap();
        let (places, id) = (Places::default(), ContainerId::try_from(ID).unwrap());
        let found = Place::of(&Cgroups::told_by(&proc), 42, ID).unwrap();
        places.note(id.clone(), Arc::new(found));
        assert!(places.of(&id, 43).is_none(), "started anew");
        let told = || {
            let wished = Resources { memory_limit: 1 << 30, ..Resources::default() };
            let shown = places.of(&id, 42)?.shown_now(&wished, &[])?;
            Some(shown.memory_limit)
        };
        for bytes in [64 << 20, 32 << 20] {
            limit(bytes);
            assert_eq!(told(), Some(bytes));
        }
        fs::remove_dir_all(&group).unwrap();
        assert_eq!(told(), None, "the container has ended");
        places.forget(&id);
        assert!(places.of(&id, 42).is_none());
    }
}
