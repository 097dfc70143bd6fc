//! OOM kills in a pod's cgroup, and how many of them count as attributed to ended containers.

use std::{collections::HashSet, fs, path::Path};

use crate::host::cgroup::kills::kills;

#[derive(Debug, Default)]
pub(super) struct KillAccounting {
    /// How many kills count as attributed. `None` while the kernel's count of kills is unknown.
    attributed: Option<u64>,
    /// Containers that have ended. Kills in their cgroups are attributed even while the cgroups exist.
    pub(super) ended: HashSet<String>,
}

impl KillAccounting {
    /// Records that a pod uses the cgroup. If no count is known, all `kills` count as attributed, otherwise the lower
    /// of the two counts: if the cgroup was removed and created again, the kernel counts from 0.
    pub(super) fn begin(&mut self, kills: u64) {
        self.attributed = Some(self.attributed.map_or(kills, |known| known.min(kills)));
    }

    /// Records that all `kills` are attributed. Returns whether there were new ones, `None` if unknown.
    pub(super) fn attribute(&mut self, kills: Option<u64>) -> Option<bool> {
        let before = std::mem::replace(&mut self.attributed, kills);
        Some(kills? > before?)
    }
}

/// The number of OOM kills in a pod's cgroup at one moment, without kills in cgroups of containers that are not
/// in `ended`. Reads the kernel's files; blocks. `None` if the cgroup is gone, if the kernel does not count kills, or
/// if the count changed during each of three attempts.
pub(super) fn kills_of_ended(cgroup: &Path, ended: &HashSet<String>) -> Option<u64> {
    let mut all = kills(cgroup)?;
    for _ in 0..ATTEMPTS {
        let of_running = kills_of_running(cgroup, ended)?;
        let before = std::mem::replace(&mut all, kills(cgroup)?);
        // If the pod's count has changed, a kill between the reads may be in the pod's count, but not in a container's.
        if before == all {
            return Some(all.saturating_sub(of_running));
        }
    }
    None
}

fn kills_of_running(cgroup: &Path, ended: &HashSet<String>) -> Option<u64> {
    let mut sum: u64 = 0;
    for entry in fs::read_dir(cgroup).ok()?.flatten() {
        let name = entry.file_name();
        let has_ended = ended.iter().any(|id| name.to_string_lossy().contains(id));
        if !has_ended && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sum = sum.saturating_add(kills(&entry.path()).unwrap_or_default());
        }
    }
    Some(sum)
}

const ATTEMPTS: usize = 3;
