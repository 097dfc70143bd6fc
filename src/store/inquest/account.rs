//! Kills that the kernel has counted in a group around containers, and which of them are explained.

use std::{collections::HashSet, fs, path::Path};

use crate::host::cgroup::kills::kills;

/// The kills in one group.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Those of containers that have ended; none while nobody knows how many there were.
    explained: Option<u64>,
    /// Containers that have ended: what a group of theirs counts that is still there, too.
    pub(super) ended: HashSet<String>,
}

impl Account {
    /// What happened before a pod was seen there is nobody's. A group that was made anew counts
    /// from nothing.
    pub(super) fn open(&mut self, tally: Tally) {
        let dead = tally.dead();
        self.explained = Some(self.explained.map_or(dead, |known| known.min(dead)));
    }

    /// Whether there are kills of which those that ended since are the only explanation. From now
    /// on they are explained. None where nobody knows.
    pub(super) fn settle(&mut self, tally: Option<Tally>) -> Option<bool> {
        let dead = tally.map(Tally::dead);
        let before = std::mem::replace(&mut self.explained, dead);
        Some(dead? > before?)
    }
}

/// Kills in a group at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// All there ever were.
    pub(super) all: u64,
    /// Those in groups below it that are still there, but for those of who has ended.
    pub(super) alive: u64,
}

impl Tally {
    /// Blocks. None where nobody counts.
    pub(super) fn of(around: &Path, ended: &HashSet<String>) -> Option<Self> {
        let mut all = kills(around)?;
        for _ in 0..ATTEMPTS {
            let alive = alive(around, ended)?;
            let before = std::mem::replace(&mut all, kills(around)?);
            // Else one came meanwhile, and might be in one of the figures only.
            if before == all {
                return Some(Self { all, alive });
            }
        }
        None
    }

    const fn dead(self) -> u64 {
        self.all.saturating_sub(self.alive)
    }
}

fn alive(around: &Path, ended: &HashSet<String>) -> Option<u64> {
    let mut alive: u64 = 0;
    for entry in fs::read_dir(around).ok()?.flatten() {
        let name = entry.file_name();
        let is_over = ended.iter().any(|id| name.to_string_lossy().contains(id));
        if !is_over && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            alive = alive.saturating_add(kills(&entry.path()).unwrap_or_default());
        }
    }
    Some(alive)
}

/// Looks at a group in which kills go on.
const ATTEMPTS: usize = 3;
