//! OOM kills that the kernel counted in a pod's cgroup, and how many are attributed to ended containers.

use std::{collections::HashSet, fs, path::Path};

use crate::host::cgroup::kills::kills;

/// The OOM kills in one pod's cgroup.
#[derive(Debug, Default)]
pub(super) struct KillAccounting {
    /// Kills of containers that have ended. None while the number is unknown.
    attributed: Option<u64>,
    /// Containers that have ended. If a cgroup of theirs still exists, its kills count as theirs.
    pub(super) ended: HashSet<String>,
}

impl KillAccounting {
    /// A pod starts using the cgroup. Earlier kills do not belong to its future containers. A cgroup that
    /// was created again counts from 0.
    pub(super) fn begin(&mut self, count: KillCount) {
        let ended = count.of_ended();
        self.attributed = Some(self.attributed.map_or(ended, |known| known.min(ended)));
    }

    /// Attributes all kills of ended containers. Returns whether there were any since the last call, or
    /// none if that is unknown.
    pub(super) fn attribute(&mut self, count: Option<KillCount>) -> Option<bool> {
        let ended = count.map(KillCount::of_ended);
        let before = std::mem::replace(&mut self.attributed, ended);
        Some(ended? > before?)
    }
}

/// The number of kills in a cgroup at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KillCount {
    /// All kills in the pod's cgroup.
    pub(super) all: u64,
    /// Kills in the cgroups below it whose containers have not ended.
    pub(super) running: u64,
}

impl KillCount {
    /// Reads the counts; blocks. None if the kernel does not count kills.
    pub(super) fn read(cgroup: &Path, ended: &HashSet<String>) -> Option<Self> {
        let mut all = kills(cgroup)?;
        for _ in 0..ATTEMPTS {
            let running = running(cgroup, ended)?;
            let before = std::mem::replace(&mut all, kills(cgroup)?);
            // If the counts differ, a kill happened while they were read, and may be in only one of them.
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

/// How often a cgroup is read if kills happen at the same time.
const ATTEMPTS: usize = 3;
