//! Whether an end by SIGKILL was for lack of memory, where the engine does not say so.
//!
//! The engine is told by a shim that watches the container's control group, and the group may be
//! gone before the shim has looked: systemd removes a scope the moment it is empty. But the kernel
//! counts a kill in every group around the one it happened in, and the pod's outlives its
//! containers'. What the pod's group has counted, and neither a group that is still there nor a
//! container that ended earlier accounts for, was the container that has just ended.
//!
//! A verdict stays what it was: a kubelet reads an end once. Version 1 counts for each group
//! alone, so there only the engine knows.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::spawn_blocking;
use tracing::warn;

use crate::{
    checkpoint::{directory::Checkpoints, record::MemoryKills},
    error::chain,
    host::cgroup::{Cgroups, Hierarchy, kills::kills},
    model::{
        id::{ContainerId, SandboxId},
        record::{ContainerRecord, ExitReason, Process, SandboxRecord},
        time::Nanos,
    },
};

/// What is known of ends and of the groups around them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Inquest {
    cgroups: Cgroups,
    known: Arc<Mutex<Known>>,
    /// Where verdicts are kept that the engine does not know; none for tests.
    checkpoints: Option<Checkpoints>,
    /// One write at a time, each of the latest.
    saving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    /// The group around each pod.
    pods: HashMap<SandboxId, PathBuf>,
    /// Kills in such a group, of containers that have ended.
    explained: HashMap<PathBuf, u64>,
    /// By container, with the end it is about.
    verdicts: HashMap<String, (Nanos, Verdict)>,
    /// Containers that the engine sent a SIGKILL.
    sentenced: HashSet<String>,
}

/// What an end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The kernel killed for lack of memory.
    NoMemory,
    /// What the engine says.
    AsTold,
}

impl Inquest {
    /// With the verdicts of earlier runs.
    pub async fn load(cgroups: Cgroups, checkpoints: Checkpoints) -> Self {
        let MemoryKills(kills) = checkpoints.load_memory_kills().await;
        let inquest = Self { checkpoints: Some(checkpoints), ..Self::new(cgroups) };
        let found = kills.into_iter().map(|(id, at)| (id.into(), (at, Verdict::NoMemory)));
        inquest.known().verdicts.extend(found);
        inquest
    }

    /// That forgets its verdicts with the process.
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, ..Self::default() }
    }

    /// A pod was seen. What happened in its group before is nobody's.
    pub(super) async fn meet(&self, record: &SandboxRecord) {
        let Some(pid) = record.pid() else { return };
        // Among strangers nobody can tell whose kill it was.
        let stated = record.document.spec.cgroup_parent.trim_end_matches('/');
        if stated.is_empty() || self.known().pods.contains_key(&record.id) {
            return;
        }
        let (inquest, id) = (self.clone(), record.id.clone());
        let met = spawn_blocking(move || {
            if let Some(around) = around(&inquest.cgroups, pid, id.as_str())
                && let Some(tally) = Tally::of(&around, "")
            {
                inquest.known().meet(id, around, &tally);
            }
        });
        // It only fails when it panics, of which the store tells.
        drop(met.await);
    }

    /// What an end was, as far as it was found out before or the kernel knows; none where only the
    /// engine can tell.
    pub(super) async fn hold(&self, record: &ContainerRecord) -> Option<Verdict> {
        let Process::Exited { finished_at, .. } = record.process else { return None };
        let (around, before) = {
            let known = self.known();
            let before = known.verdicts.get(record.id.as_str()).copied();
            (known.pods.get(&record.document.sandbox).cloned(), before)
        };
        if let Some((_, verdict)) = before.filter(|(at, _)| *at == finished_at) {
            return Some(verdict);
        }
        if self.is_sentenced(record.id.as_str()) {
            return Some(Verdict::AsTold);
        }
        let (around, id, inquest) = (around?, record.id.clone(), self.clone());
        let held = spawn_blocking(move || {
            let mut known = inquest.known();
            let tally = Tally::of(&around, id.as_str())?;
            Some(known.account(&around, &tally))
        });
        let killed = held.await.ok().flatten()?;
        let verdict =
            if killed && is_doubtful(record) { Verdict::NoMemory } else { Verdict::AsTold };
        self.close(record, verdict).await;
        Some(verdict)
    }

    /// Keeps a verdict.
    pub(super) async fn close(&self, record: &ContainerRecord, verdict: Verdict) {
        let Process::Exited { finished_at, .. } = record.process else { return };
        self.known().verdicts.insert(record.id.to_string(), (finished_at, verdict));
        if verdict == Verdict::NoMemory {
            self.save().await;
        }
    }

    /// The engine sent it a SIGKILL: no need to look for another cause.
    pub(super) fn sentence(&self, id: &str) {
        self.known().sentenced.insert(id.to_owned());
    }

    pub(super) fn is_sentenced(&self, id: &str) -> bool {
        self.known().sentenced.contains(id)
    }

    /// Forgets what is gone.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut known = self.known();
        known.verdicts.retain(|id, _| is_there(id));
        known.sentenced.retain(|id| is_there(id));
        known.pods.retain(|id, _| is_there(id.as_str()));
        let around: HashSet<PathBuf> = known.pods.values().cloned().collect();
        known.explained.retain(|group, _| around.contains(group));
    }

    async fn save(&self) {
        let Some(checkpoints) = &self.checkpoints else { return };
        let _turn = self.saving.lock().await;
        let kills = self.known().kills();
        if let Err(error) = checkpoints.save_memory_kills(&MemoryKills(kills)).await {
            let error = chain(&error);
            warn!(error, "after a restart, kills for lack of memory will count as plain errors");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an end is worth an inquest: the engine says that memory was short, or a SIGKILL has no
/// other explanation yet. Of other ends nothing is learned.
pub(super) fn is_suspect(record: &ContainerRecord) -> bool {
    let told = matches!(record.process, Process::Exited { reason: ExitReason::OomKilled, .. });
    told || is_doubtful(record)
}

/// Whether a record leaves open why its process was killed.
pub(super) fn is_doubtful(record: &ContainerRecord) -> bool {
    matches!(record.process, Process::Exited { exit_code: KILLED, reason: ExitReason::Error, .. })
}

/// The record as a verdict has it.
pub(super) fn by(verdict: Verdict, mut record: ContainerRecord) -> ContainerRecord {
    if let (Verdict::NoMemory, Process::Exited { reason, .. }) = (verdict, &mut record.process) {
        *reason = ExitReason::OomKilled;
    }
    record
}

impl Known {
    fn meet(&mut self, id: SandboxId, around: PathBuf, tally: &Tally) {
        self.explained.entry(around.clone()).or_insert(tally.all.saturating_sub(tally.alive));
        self.pods.insert(id, around);
    }

    /// Whether there are kills of which the one that ended is the only explanation. From now on they
    /// are explained, also those it survived.
    fn account(&mut self, around: &Path, tally: &Tally) -> bool {
        let of_the_dead = tally.all.saturating_sub(tally.alive);
        let explained = self.explained.entry(around.to_owned()).or_insert(of_the_dead);
        let is_new = of_the_dead > *explained;
        *explained = of_the_dead;
        is_new
    }

    fn kills(&self) -> BTreeMap<ContainerId, Nanos> {
        let killed = self.verdicts.iter().filter(|(_, (_, found))| *found == Verdict::NoMemory);
        killed.filter_map(|(id, (at, _))| Some((id.as_str().try_into().ok()?, *at))).collect()
    }
}

/// Kills in a pod's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    /// All there ever were.
    all: u64,
    /// Those in groups below it that are still there, but for the one of who has ended.
    alive: u64,
}

impl Tally {
    /// Blocks. None where nobody counts.
    fn of(around: &Path, ended: &str) -> Option<Self> {
        let mut all = kills(around)?;
        for _ in 0..ATTEMPTS {
            let alive = Self::alive(around, ended)?;
            let before = std::mem::replace(&mut all, kills(around)?);
            // Else one came meanwhile, and might be in one of the figures only.
            if before == all {
                return Some(Self { all, alive });
            }
        }
        None
    }

    fn alive(around: &Path, ended: &str) -> Option<u64> {
        let mut alive: u64 = 0;
        for entry in fs::read_dir(around).ok()?.flatten() {
            let name = entry.file_name();
            let is_other = ended.is_empty() || !name.to_string_lossy().contains(ended);
            if is_other && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                alive = alive.saturating_add(kills(&entry.path()).unwrap_or_default());
            }
        }
        Some(alive)
    }
}

/// The group around a container's, in a hierarchy that counts for the whole of it.
fn around(cgroups: &Cgroups, pid: u32, id: &str) -> Option<PathBuf> {
    let group = cgroups.of(pid, id).ok()?;
    let (hierarchy, place) = group.directory("memory")?;
    let above = place.parent().filter(|_| hierarchy == Hierarchy::Unified)?;
    Some(above.to_owned())
}

/// Looks at a group in which kills go on.
const ATTEMPTS: usize = 3;
/// 128 and SIGKILL.
const KILLED: i32 = 137;

#[cfg(test)]
mod tests;
