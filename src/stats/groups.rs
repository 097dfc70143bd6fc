//! Where the control groups of containers are: found once for each process, for the search costs
//! more than a reading.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::read::{
    file::Files,
    group::{self, Means, Places},
};
use crate::{
    host::{cgroup::Cgroups, clock},
    model::{
        stats::{Detail, GroupReading},
        time::Nanos,
    },
};

/// Groups by the id of the container they belong to.
#[derive(Debug)]
pub(super) struct Groups {
    cgroups: Cgroups,
    proc: PathBuf,
    machine_memory: u64,
    known: Mutex<HashMap<String, Known>>,
}

/// Where a container's group is, as long as its main process is this one.
#[derive(Clone, Debug)]
struct Known {
    pid: u32,
    places: Arc<Places>,
}

/// What came of the search for a group.
#[derive(Debug)]
pub(super) enum Found {
    /// Here it is.
    Here(Arc<Places>),
    /// The process runs, and no group of its container can be seen.
    Hidden,
    /// The process has ended.
    Ended,
}

impl Groups {
    /// Of the processes below `proc`.
    pub(super) fn below(proc: &Path, files: &mut Files) -> Self {
        let memory = files.text(proc, "meminfo").and_then(total);
        Self {
            cgroups: Cgroups::told_by(proc),
            proc: proc.to_owned(),
            machine_memory: memory.unwrap_or(u64::MAX),
            known: Mutex::default(),
        }
    }

    /// The control groups of this machine.
    pub(super) const fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    /// The group of the container `id`, whose main process is `pid`.
    pub(super) fn find(&self, id: &str, pid: u32) -> Found {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        if let Some(known) = known.filter(|known| known.pid == pid) {
            return Found::Here(known.places);
        }
        let Ok(group) = self.cgroups.of(pid, id) else {
            let runs = self.proc.join(pid.to_string()).exists();
            return if runs { Found::Hidden } else { Found::Ended };
        };
        let places = Arc::new(Places::of(&group, self.machine_memory));
        let known = Known { pid, places: Arc::clone(&places) };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), known);
        Found::Here(places)
    }

    /// Reads a group; none when it ended meanwhile.
    pub(super) fn read(places: &Places, means: &Means, files: &mut Files) -> Option<GroupReading> {
        let reading = group::read(places, means, files);
        let whole = reading.cpu.is_some() && reading.memory.is_some();
        (whole || places.exists()).then_some(reading)
    }

    /// Forgets all others.
    pub(super) fn keep(&self, ids: &HashSet<&str>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|id, _| ids.contains(id.as_str()));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.lock().unwrap().len()
    }
}

/// What a reading of this detail takes.
pub(super) fn means(detail: Detail) -> Means {
    let page_sizes = match detail {
        Detail::Usage => Vec::new(),
        Detail::Everything => crate::host::cgroup::hugetlb::page_sizes(),
    };
    Means { detail, page_sizes, now }
}

/// Never unset, whatever the clock says.
pub(super) fn now() -> Nanos {
    Nanos(clock::nanos().max(1))
}

/// `MemTotal` of `/proc/meminfo` in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
