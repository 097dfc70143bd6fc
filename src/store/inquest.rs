//! Whether an end by SIGKILL was for lack of memory, where the engine does not say so.
//!
//! The engine is told by a shim that watches the container's control group, and the group may be
//! gone before the shim has looked: systemd removes a scope the moment it is empty. But the kernel
//! counts a kill in every group around the one it happened in, and the pod's outlives its
//! containers'. What the pod's group has counted, and neither a group that is still there nor a
//! container that ended earlier accounts for, was the container that has just ended. So every end
//! is accounted for, also one that leaves no question: else its kills would be the next one's.
//!
//! Version 1 counts for each group alone, and the count goes with the group: there the engine's own
//! word is all there is. Where that comes after the end, only its event has it.
//!
//! A verdict stays what it was: a kubelet reads an end once.

mod account;
mod verdicts;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::task::spawn_blocking;
use tracing::warn;

pub(super) use self::verdicts::Verdict;
use self::{
    account::{Account, Tally},
    verdicts::Verdicts,
};
use crate::{
    checkpoint::{directory::Checkpoints, record::MemoryKills},
    error::chain,
    host::cgroup::{Cgroups, Hierarchy},
    model::{
        cgroup_parents::CgroupParents,
        document::SandboxDocument,
        id::SandboxId,
        record::{ContainerRecord, ExitReason, Process, SandboxRecord},
        time::Nanos,
    },
};

/// What is known of ends and of the groups around them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Inquest {
    cgroups: Cgroups,
    /// Never held while files are read: the store's writer needs it too.
    known: Arc<Mutex<Known>>,
    /// One count at a time, from the kernel's figures to the account.
    counting: Arc<tokio::sync::Mutex<()>>,
    /// Where verdicts are kept that the engine does not know; none for tests.
    checkpoints: Option<Checkpoints>,
    /// One write at a time, each of the latest.
    saving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<SandboxId, Pod>,
    /// By the group around containers.
    accounts: HashMap<PathBuf, Account>,
    verdicts: Verdicts,
    /// Containers that the engine sent a SIGKILL, and when it did so last.
    sentenced: HashMap<String, Nanos>,
    /// Containers of which the engine has told that memory was short, and when it was last.
    short: HashMap<String, Nanos>,
    /// Of all these, what the last list had not.
    missing: HashSet<String>,
}

#[derive(Debug)]
struct Pod {
    document: Arc<SandboxDocument>,
    around: PathBuf,
}

impl Inquest {
    /// With the verdicts of earlier runs.
    pub async fn load(cgroups: Cgroups, checkpoints: Checkpoints) -> Self {
        let MemoryKills(kills) = checkpoints.load_memory_kills().await;
        let inquest = Self { checkpoints: Some(checkpoints), ..Self::new(cgroups) };
        {
            let mut known = inquest.known();
            known.verdicts = Verdicts::stored(kills);
            // They were made before the first list begins, so it proves what it lacks.
            known.missing = known.verdicts.ids().map(str::to_owned).collect();
        }
        inquest
    }

    /// That forgets its verdicts with the process.
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, ..Self::default() }
    }

    /// A pod was seen. What happened in its group before is nobody's.
    pub(super) async fn meet(&self, record: &SandboxRecord) {
        let Some(pid) = record.pid() else { return };
        // What is around a pod without a parent of its own is the whole machine's.
        if record.document.parent().is_empty() || self.known().pods.contains_key(&record.id) {
            return;
        }
        let _turn = self.counting.lock().await;
        let (cgroups, id) = (self.cgroups.clone(), record.id.clone());
        let met = spawn_blocking(move || {
            let around = around(&cgroups, pid, id.as_str())?;
            let tally = Tally::of(&around, &HashSet::new())?;
            Some((around, tally))
        });
        // It only fails when it panics, of which the store tells.
        if let Ok(Some((around, tally))) = met.await {
            let mut known = self.known();
            known.accounts.entry(around.clone()).or_default().open(tally);
            let pod = Pod { document: Arc::clone(&record.document), around };
            known.pods.insert(record.id.clone(), pod);
        }
    }

    /// A container was seen. While Docker starts it again an end is over that nobody will ask
    /// about: it explains its kills, too.
    pub(super) async fn attend(&self, record: &ContainerRecord) {
        match record.process {
            Process::Running { pid: 0, .. } => drop(self.account(record).await),
            Process::Running { .. } => self.known().live(record),
            _ => {}
        }
    }

    /// What was found out of this end before.
    fn verdict(&self, record: &ContainerRecord) -> Option<Verdict> {
        let Process::Exited { finished_at, .. } = record.process else { return None };
        self.known().verdicts.of(record.id.as_str(), finished_at)
    }

    /// What an end was, as far as it was found out before, or leaves no question, or the kernel
    /// knows; none where its word or the engine's may still come.
    pub(super) async fn hold(&self, record: &ContainerRecord) -> Option<Verdict> {
        if !matches!(record.process, Process::Exited { .. }) {
            return None;
        }
        if let Some(verdict) = self.verdict(record) {
            return Some(verdict);
        }
        let is_for_memory = self.account(record).await;
        // The engine may tell of a SIGKILL after the end: so it is asked for last.
        let is_clear = !is_doubtful(record) || self.is_sentenced(record);
        let verdict = match is_for_memory {
            _ if is_clear => Verdict::AsTold,
            Some(true) => Verdict::NoMemory,
            Some(false) => Verdict::AsTold,
            None if self.is_short(record) => Verdict::NoMemory,
            None => return None,
        };
        self.close(record, verdict).await;
        Some(verdict)
    }

    /// Whether its end explains kills that nothing else does; none where nobody can tell. Of each
    /// end only the first answer is true.
    async fn account(&self, record: &ContainerRecord) -> Option<bool> {
        let _turn = self.counting.lock().await;
        let (around, ended) = self.known().ends(record)?;
        let group = around.clone();
        let tally = spawn_blocking(move || Tally::of(&group, &ended)).await.ok().flatten();
        self.known().settle(record, &around, tally)
    }

    /// Keeps a verdict.
    pub(super) async fn close(&self, record: &ContainerRecord, verdict: Verdict) {
        let Process::Exited { finished_at, .. } = record.process else { return };
        self.known().verdicts.decide(record.id.as_str(), (finished_at, verdict));
        if verdict == Verdict::NoMemory {
            self.save().await;
        }
    }

    /// The engine sent it a SIGKILL: no need to look for another cause.
    pub(super) fn sentence(&self, id: &str, at: Nanos) {
        self.known().sentenced.insert(id.to_owned(), at);
    }

    /// Whether the engine did so in the run that has ended.
    pub(super) fn is_sentenced(&self, record: &ContainerRecord) -> bool {
        is_of_run(record, &self.known().sentenced)
    }

    /// The engine told that memory was short in it. Its inspection may never say so: what comes
    /// after the end is not added there.
    pub(super) fn hear(&self, id: &str, at: Nanos) {
        self.known().short.insert(id.to_owned(), at);
    }

    /// Whether the engine told so of the run that has ended.
    pub(super) fn is_short(&self, record: &ContainerRecord) -> bool {
        is_of_run(record, &self.known().short)
    }

    /// Forgets what this list of the engine and the one before have not. One alone proves nothing:
    /// it may have begun before the container was made. [`Self::save`] is to follow.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut known = self.known();
        let missing = known.ids().filter(|id| !is_there(id)).map(str::to_owned).collect();
        let before = std::mem::replace(&mut known.missing, missing);
        let keeps = |id: &str| is_there(id) || !before.contains(id);
        known.retain(keeps);
    }

    /// A container is no more. [`Self::save`] is to follow.
    pub(super) fn forget(&self, id: &str) {
        self.known().forget(id);
    }

    /// Whether the verdicts that the engine does not know are stored as they are.
    pub(super) fn is_saved(&self) -> bool {
        self.known().verdicts.is_saved()
    }

    /// Stores them, unless they are; also waits for whoever does so. A failure is told of, and made
    /// up for with the next change.
    pub(super) async fn save(&self) {
        let _turn = self.saving.lock().await;
        let Some((kills, changes)) = self.known().verdicts.unsaved() else { return };
        let stored = match &self.checkpoints {
            Some(checkpoints) => checkpoints.save_memory_kills(&MemoryKills(kills)).await,
            None => Ok(()),
        };
        match stored {
            Ok(()) => self.known().verdicts.saved(changes),
            Err(error) => {
                let error = chain(&error);
                warn!(error, "after a restart, kills for lack of memory may count as plain errors");
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// One of a pod that was met has ended: the group around it, and all that ended there.
    fn ends(&mut self, record: &ContainerRecord) -> Option<(PathBuf, HashSet<String>)> {
        let around = self.pods.get(&record.document.sandbox)?.around.clone();
        let account = self.accounts.get_mut(&around)?;
        account.ended.insert(record.id.to_string());
        Some((around, account.ended.clone()))
    }

    /// It runs: what its group counts is no ended one's, though an earlier run of it has ended.
    fn live(&mut self, record: &ContainerRecord) {
        let Some(pod) = self.pods.get(&record.document.sandbox) else { return };
        if let Some(account) = self.accounts.get_mut(&pod.around) {
            account.ended.remove(record.id.as_str());
        }
    }

    fn settle(
        &mut self,
        record: &ContainerRecord,
        around: &Path,
        tally: Option<Tally>,
    ) -> Option<bool> {
        if !self.accounts.get_mut(around)?.settle(tally)? {
            return Some(false);
        }
        // A group that several pods share is counted too: the others may go. But until then nobody
        // can tell whose kill it was.
        let pod = self.pods.get(&record.document.sandbox)?;
        let parents = CgroupParents::of(self.pods.values().map(|pod| &*pod.document));
        parents.is_own(&pod.document).then_some(true)
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        let pods = self.pods.keys().map(SandboxId::as_str);
        let told = self.sentenced.keys().chain(self.short.keys());
        let containers = self.verdicts.ids().chain(told.map(String::as_str));
        let ended = self.accounts.values().flat_map(|one| &one.ended).map(String::as_str);
        pods.chain(containers).chain(ended)
    }

    /// What its pod's account holds of it stays until the lists lack it.
    fn forget(&mut self, id: &str) {
        self.verdicts.forget(id);
        self.sentenced.remove(id);
        self.short.remove(id);
    }

    fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.verdicts.retain(&keeps);
        self.sentenced.retain(|id, _| keeps(id));
        self.short.retain(|id, _| keeps(id));
        self.pods.retain(|id, _| keeps(id.as_str()));
        let around: HashSet<&PathBuf> = self.pods.values().map(|pod| &pod.around).collect();
        self.accounts.retain(|group, _| around.contains(group));
        self.accounts.values_mut().for_each(|one| one.ended.retain(|id| keeps(id)));
    }
}

/// Whether one of these is about the run that has ended, not an earlier one.
fn is_of_run(record: &ContainerRecord, told: &HashMap<String, Nanos>) -> bool {
    let Process::Exited { started_at, .. } = record.process else { return false };
    told.get(record.id.as_str()).is_some_and(|at| *at >= started_at)
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

/// The group around a container's, in a hierarchy that counts for the whole of it.
fn around(cgroups: &Cgroups, pid: u32, id: &str) -> Option<PathBuf> {
    let group = cgroups.of(pid, id).ok()?;
    let (hierarchy, place) = group.directory("memory")?;
    let above = place.parent().filter(|_| hierarchy == Hierarchy::V2)?;
    Some(above.to_owned())
}

/// 128 and SIGKILL.
const KILLED: i32 = 137;

#[cfg(test)]
mod tests;
