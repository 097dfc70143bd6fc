//! OOMKilled: whether a container that ended by SIGKILL ran out of memory, where the engine does not
//! say so.
//!
//! The engine learns of it from a shim that watches the container's cgroup, and the cgroup may be
//! gone before the shim has read it: systemd removes a scope the moment it is empty. But the kernel
//! counts an OOM kill in every cgroup above the one it happened in, and the pod's cgroup outlives
//! its containers'. A kill that the pod's cgroup has counted, and that neither a cgroup that is
//! still there nor a container that ended earlier explains, was of the container that has just
//! ended. So kills are attributed at every end, also at one with a known cause: else they would be
//! the next container's.
//!
//! On cgroup v1 each cgroup counts for itself, and the count goes with it: there only the engine
//! knows, by its inspect or, where it learns of it after the end, by its event `oom` alone.
//!
//! A cause does not change once it is decided: a kubelet reads an end once.

mod causes;
mod kill_accounting;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::warn;

pub(super) use self::causes::ExitCause;
use self::{
    causes::ExitCauses,
    kill_accounting::{KillAccounting, KillCount},
};
use crate::{
    checkpoint::{directory::Checkpoints, record::MemoryKills},
    concurrency::blocking::blocking,
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

/// Decides why containers ended. Clones share what is known.
#[derive(Clone, Debug, Default)]
pub struct OomDetector {
    cgroups: Cgroups,
    /// Never held while files are read: the store's writer needs it too.
    known: Arc<Mutex<Known>>,
    /// One count at a time, from the kernel's files to the accounting.
    counting: Arc<tokio::sync::Mutex<()>>,
    /// Where causes are saved that the engine does not know; none for tests.
    checkpoints: Option<Checkpoints>,
    /// One write at a time, each of the latest.
    saving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<SandboxId, Pod>,
    /// By the cgroup of a pod.
    accounting: HashMap<PathBuf, KillAccounting>,
    causes: ExitCauses,
    /// Containers to which the engine sent a SIGKILL, and when it last did.
    engine_kills: HashMap<String, Nanos>,
    /// Containers that dockbridge itself had killed, and when it last asked for that.
    own_kills: HashMap<String, Nanos>,
    /// Containers with an `oom` event of the engine, and when the last one was.
    oom_events: HashMap<String, Nanos>,
    /// Of all these, what the last list lacked.
    missing: HashSet<String>,
}

#[derive(Debug)]
struct Pod {
    document: Arc<SandboxDocument>,
    /// The cgroup above its containers'.
    cgroup: PathBuf,
}

impl OomDetector {
    /// With the causes that earlier runs decided.
    pub async fn load(cgroups: Cgroups, checkpoints: Checkpoints) -> Self {
        let MemoryKills(kills) = checkpoints.load_file().await;
        let oom = Self { checkpoints: Some(checkpoints), ..Self::new(cgroups) };
        {
            let mut known = oom.known.lock();
            known.causes = ExitCauses::loaded(kills);
            // They are older than the first list, so what it lacks is gone.
            known.missing = known.causes.ids().map(str::to_owned).collect();
        }
        oom
    }

    /// That saves no cause: for tests and short runs.
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, ..Self::default() }
    }

    /// A pod was inspected. Kills counted in its cgroup before are of no container to come.
    pub(super) async fn observe_pod(&self, record: &SandboxRecord) {
        let Some(pid) = record.pid() else { return };
        // The cgroup above a pod without a parent of its own is the whole machine's.
        if record.document.parent().is_empty() || self.known.lock().pods.contains_key(&record.id) {
            return;
        }
        let _lock = self.counting.lock().await;
        let (cgroups, id) = (self.cgroups.clone(), record.id.clone());
        let counted = blocking(move || {
            let cgroup = pod_cgroup(&cgroups, pid, id.as_str())?;
            let count = KillCount::read(&cgroup, &HashSet::new())?;
            Some((cgroup, count))
        });
        if let Some((cgroup, count)) = counted.await {
            let mut known = self.known.lock();
            known.accounting.entry(cgroup.clone()).or_default().begin(count);
            let pod = Pod { document: Arc::clone(&record.document), cgroup };
            known.pods.insert(record.id.clone(), pod);
        }
    }

    /// A container was inspected. While Docker restarts it, it has ended in between, which nobody
    /// will ask about: that end explains kills, too.
    pub(super) async fn observe_container(&self, record: &ContainerRecord) {
        match record.process {
            Process::Running { pid: 0, .. } => drop(self.attribute_kills(record).await),
            Process::Running { .. } => self.known.lock().is_running(record),
            _ => {}
        }
    }

    /// The cause of this end, where it was decided before.
    fn decided(&self, record: &ContainerRecord) -> Option<ExitCause> {
        let Process::Exited { finished_at, .. } = record.process else { return None };
        self.known.lock().causes.of(record.id.as_str(), finished_at)
    }

    /// The cause of an end, if it was decided before, is plain, or is known to the kernel; none
    /// where the engine may still learn of it.
    pub(super) async fn exit_cause(&self, record: &ContainerRecord) -> Option<ExitCause> {
        if !matches!(record.process, Process::Exited { .. }) {
            return None;
        }
        if let Some(cause) = self.decided(record) {
            return Some(cause);
        }
        let oom_killed = self.attribute_kills(record).await;
        // The engine's event of its SIGKILL may come after the end: so it is looked up last.
        let is_plain = !is_unexplained_kill(record) || self.was_killed_by_engine(record);
        let cause = match oom_killed {
            _ if is_plain => ExitCause::AsReported,
            Some(true) => ExitCause::OutOfMemory,
            Some(false) => ExitCause::AsReported,
            None if self.had_oom_event(record) => ExitCause::OutOfMemory,
            None => return None,
        };
        self.record_cause(record, cause).await;
        Some(cause)
    }

    /// Whether its end explains kills that nothing else does; none where that cannot be known. Only
    /// the first call for an end gives its answer: then the kills are attributed.
    async fn attribute_kills(&self, record: &ContainerRecord) -> Option<bool> {
        let _lock = self.counting.lock().await;
        let (cgroup, ended) = self.known.lock().has_ended(record)?;
        let path = cgroup.clone();
        let count = blocking(move || KillCount::read(&path, &ended)).await;
        self.known.lock().attribute(record, &cgroup, count)
    }

    /// Decides the cause of an end.
    pub(super) async fn record_cause(&self, record: &ContainerRecord, cause: ExitCause) {
        let Process::Exited { finished_at, .. } = record.process else { return };
        self.known.lock().causes.put(record.id.as_str(), (finished_at, cause));
        if cause == ExitCause::OutOfMemory {
            self.save().await;
        }
    }

    /// The engine sent it a SIGKILL: that is the cause of its end.
    pub(super) fn record_engine_kill(&self, id: &str, at: Nanos) {
        self.known.lock().engine_kills.insert(id.to_owned(), at);
    }

    /// A call is about to have the engine send it a SIGKILL. Of a container that hides signals no event
    /// says so.
    pub(super) fn record_own_kill(&self, id: &str, at: Nanos) {
        self.known.lock().own_kills.insert(id.to_owned(), at);
    }

    /// Whether the engine did so in the run that has ended.
    pub(super) fn was_killed_by_engine(&self, record: &ContainerRecord) -> bool {
        let Process::Exited { finished_at, .. } = record.process else { return false };
        let known = self.known.lock();
        // A call that came after the end did not cause it.
        let own = known.own_kills.get(record.id.as_str()).is_some_and(|at| *at <= finished_at);
        own && is_of_run(record, &known.own_kills)
            || !record.hides_signals && is_of_run(record, &known.engine_kills)
    }

    /// The engine sent an `oom` event for it. Its inspect may never say so: the engine does not add
    /// what it learns after the end.
    pub(super) fn record_oom_event(&self, id: &str, at: Nanos) {
        self.known.lock().oom_events.insert(id.to_owned(), at);
    }

    /// Whether there was one in the run that has ended.
    pub(super) fn had_oom_event(&self, record: &ContainerRecord) -> bool {
        is_of_run(record, &self.known.lock().oom_events)
    }

    /// Forgets what this list of the engine and the one before lack. One alone proves nothing: it
    /// may have begun before the container was created. The caller calls [`Self::save`] afterwards.
    pub(super) fn retain(&self, is_listed: impl Fn(&str) -> bool) {
        let mut known = self.known.lock();
        let missing = known.ids().filter(|id| !is_listed(id)).map(str::to_owned).collect();
        let before = std::mem::replace(&mut known.missing, missing);
        let keeps = |id: &str| is_listed(id) || !before.contains(id);
        known.retain(keeps);
    }

    /// A container is gone. The caller calls [`Self::save`] afterwards.
    pub(super) fn forget(&self, id: &str) {
        self.known.lock().forget(id);
    }

    /// Whether the causes that the engine does not know are saved.
    pub(super) fn is_saved(&self) -> bool {
        self.known.lock().causes.is_saved()
    }

    /// Saves them where they are not; waits for a save that is under way. A failure is logged, and
    /// made up for by the next save.
    pub(super) async fn save(&self) {
        let _lock = self.saving.lock().await;
        let Some((kills, changes)) = self.known.lock().causes.unsaved() else { return };
        let saved = match &self.checkpoints {
            Some(checkpoints) => checkpoints.save_file(&MemoryKills(kills)).await,
            None => Ok(()),
        };
        match saved {
            Ok(()) => self.known.lock().causes.saved(changes),
            Err(error) => {
                let error = chain(&error);
                warn!(
                    error,
                    "cannot save OOM kills; after a restart they are shown as plain errors"
                );
            }
        }
    }
}

impl Known {
    /// A container of a known pod has ended: the pod's cgroup, and all containers that ended in it.
    fn has_ended(&mut self, record: &ContainerRecord) -> Option<(PathBuf, HashSet<String>)> {
        let cgroup = self.pods.get(&record.document.sandbox)?.cgroup.clone();
        let accounting = self.accounting.get_mut(&cgroup)?;
        accounting.ended.insert(record.id.to_string());
        Some((cgroup, accounting.ended.clone()))
    }

    /// It runs: what its cgroup counts is of no ended container, though an earlier run has ended.
    fn is_running(&mut self, record: &ContainerRecord) {
        let Some(pod) = self.pods.get(&record.document.sandbox) else { return };
        if let Some(accounting) = self.accounting.get_mut(&pod.cgroup) {
            accounting.ended.remove(record.id.as_str());
        }
    }

    fn attribute(
        &mut self,
        record: &ContainerRecord,
        cgroup: &Path,
        count: Option<KillCount>,
    ) -> Option<bool> {
        if !self.accounting.get_mut(cgroup)?.attribute(count)? {
            return Some(false);
        }
        // Kills in a cgroup that several pods share are counted too, for one pod may remain. Until
        // then it is unknown whose kill it was.
        let pod = self.pods.get(&record.document.sandbox)?;
        let parents = CgroupParents::of(self.pods.values().map(|pod| &*pod.document));
        parents.is_own(&pod.document).then_some(true)
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        let pods = self.pods.keys().map(SandboxId::as_str);
        let kills = self.engine_kills.keys().chain(self.own_kills.keys());
        let events = kills.chain(self.oom_events.keys());
        let containers = self.causes.ids().chain(events.map(String::as_str));
        let ended = self.accounting.values().flat_map(|one| &one.ended).map(String::as_str);
        pods.chain(containers).chain(ended)
    }

    /// What the accounting of its pod has of it stays until the lists lack it.
    fn forget(&mut self, id: &str) {
        self.causes.forget(id);
        self.engine_kills.remove(id);
        self.own_kills.remove(id);
        self.oom_events.remove(id);
    }

    fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.causes.retain(&keeps);
        self.engine_kills.retain(|id, _| keeps(id));
        self.own_kills.retain(|id, _| keeps(id));
        self.oom_events.retain(|id, _| keeps(id));
        self.pods.retain(|id, _| keeps(id.as_str()));
        let cgroups: HashSet<&PathBuf> = self.pods.values().map(|pod| &pod.cgroup).collect();
        self.accounting.retain(|cgroup, _| cgroups.contains(cgroup));
        self.accounting.values_mut().for_each(|one| one.ended.retain(|id| keeps(id)));
    }
}

/// Whether its event was in the run that has ended, not in an earlier one.
fn is_of_run(record: &ContainerRecord, events: &HashMap<String, Nanos>) -> bool {
    let Process::Exited { started_at, .. } = record.process else { return false };
    events.get(record.id.as_str()).is_some_and(|at| *at >= started_at)
}

/// Whether it ended by a SIGKILL whose cause the engine does not report.
pub(super) fn is_unexplained_kill(record: &ContainerRecord) -> bool {
    matches!(
        record.process,
        Process::Exited { exit_code: SIGKILLED, reason: ExitReason::Error, .. }
    )
}

/// The record with this cause of its end.
pub(super) fn with_cause(cause: ExitCause, mut record: ContainerRecord) -> ContainerRecord {
    if let (ExitCause::OutOfMemory, Process::Exited { reason, .. }) = (cause, &mut record.process) {
        *reason = ExitReason::OomKilled;
    }
    record
}

/// The cgroup above a container's, in a hierarchy where it counts what happens below it (v2).
fn pod_cgroup(cgroups: &Cgroups, pid: u32, id: &str) -> Option<PathBuf> {
    let cgroup = cgroups.find(pid, id).ok()?;
    let (hierarchy, path) = cgroup.directory("memory")?;
    let above = path.parent().filter(|_| hierarchy == Hierarchy::V2)?;
    Some(above.to_owned())
}

/// 128 and SIGKILL.
const SIGKILLED: i32 = 137;

#[cfg(test)]
mod tests;
