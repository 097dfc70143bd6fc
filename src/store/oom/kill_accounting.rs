//! OOM kills that the kernel has counted in a pod's cgroup, and which of them are attributed.

use std::{collections::HashSet, fs, path::Path};

use crate::host::cgroup::kills::kills;

/// The kills in one pod's cgroup.
#[derive(Debug, Default)]
pub(super) struct KillAccounting {
    /// Those of containers that have ended; none while their number is unknown.
    attributed: Option<u64>,
    /// Containers that have ended. Their cgroups may still be there; what those count is theirs.
    pub(super) ended: HashSet<String>,
}

impl KillAccounting {
    /// A pod begins there; earlier kills are of no container to come. A cgroup that was created anew
    /// counts from 0.
    pub(super) fn begin(&mut self, count: KillCount) {
        let ended = count.of_ended();
        self.attributed = Some(self.attributed.map_or(ended, |known| known.min(ended)));
    }

    /// Attributes all kills of ended containers. Returns whether there were any since the last call;
    /// none where that is unknown.
    pub(super) fn attribute(&mut self, count: Option<KillCount>) -> Option<bool> {
        let ended = count.map(KillCount::of_ended);
        let before = std::mem::replace(&mut self.attributed, ended);
        Some(ended? > before?)
    }
}

/// Kills in a group at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KillCount {
    /// All in the pod's cgroup.
    pub(super) all: u64,
    /// Those in cgroups below it of containers that have not ended.
    pub(super) running: u64,
}

impl KillCount {
    /// Reads it; blocks. None where the kernel does not count.
    pub(super) fn read(cgroup: &Path, ended: &HashSet<String>) -> Option<Self> {
        let mut all = kills(cgroup)?;
        for _ in 0..ATTEMPTS {
            let running = running(cgroup, ended)?;
            let before = std::mem::replace(&mut all, kills(cgroup)?);
            // Else there was a kill meanwhile, which may be in one of the counts only.
            if before == all {
                return Some(Self { all, running });
            }
        }
        None
    }

    const fn of_ended(self) -> u64 {
        self.all.saturating_sub(self.running)
    }
}

fn running(cgroup: &Path, ended: &HashSet<String>) -> Option<u64> {
    let mut running: u64 = 0;
    for entry in fs::read_dir(cgroup).ok()?.flatten() {
        let name = entry.file_name();
        let has_ended = ended.iter().any(|id| name.to_string_lossy().contains(id));
        if !has_ended && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            running = running.saturating_add(kills(&entry.path()).unwrap_or_default());
        }
    }
    Some(running)
}

/// Readings of a cgroup in which kills go on.
const ATTEMPTS: usize = 3;
