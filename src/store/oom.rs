//! OOMKilled: whether a container that ended by SIGKILL ran out of memory, if the engine does not say so.
//!
//! The engine learns of an OOM kill from a shim that watches the container's cgroup. The cgroup may be gone
//! before the shim has read it, because systemd removes a scope as soon as it is empty. But the kernel
//! counts an OOM kill in every cgroup above it, and the pod's cgroup exists longer than those of its
//! containers. A kill in the pod's cgroup is attributed to the container that has just ended if no existing
//! cgroup and no container that ended earlier explains it. Kills are attributed at every end, even if its
//! cause is known. Otherwise they would be attributed to the next container.
//!
//! On cgroup v1 each cgroup has its own count, which disappears with the cgroup. Only the engine then knows of a
//! kill. It reports the kill in its inspect or, if it learns of it after the end, only with an `oom` event.
//!
//! A cause never changes once it was decided, because kubelet reads an end only once.

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

/// Decides why containers ended. Clones share their data.
#[derive(Clone, Debug, Default)]
pub struct OomDetector {
    cgroups: Cgroups,
    /// Not locked while files are read, because the store's writer also needs it.
    known: Arc<Mutex<Known>>,
    /// Allows only one count at a time, from reading the kernel's files to the accounting.
    counting: Arc<tokio::sync::Mutex<()>>,
    /// Where causes that the engine does not know are saved. None in tests.
    checkpoints: Option<Checkpoints>,
    /// Allows only one write at a time, each with the latest state.
    saving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<SandboxId, Pod>,
    /// By the pod's cgroup.
    accounting: HashMap<PathBuf, KillAccounting>,
    causes: ExitCauses,
    /// By container: when the run began that was seen last, until its end is seen.
    runs: HashMap<String, Nanos>,
    /// By container: when each of these last happened.
    events: HashMap<String, HashMap<KillEvent, Nanos>>,
    /// Containers in any of these tables that the last list lacked.
    missing: HashSet<String>,
}

/// What may explain the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KillEvent {
    /// The engine sent it a SIGKILL, which explains its end.
    EngineKill,
    /// dockbridge is about to ask the engine to kill it. If the container hides signals, no event will
    /// report the kill.
    OwnKill,
    /// The engine sent an `oom` event for it. Its inspect may never report this, because the engine does
    /// not update it after the end.
    OutOfMemory,
}

#[derive(Debug)]
struct Pod {
    document: Arc<SandboxDocument>,
    /// The parent of its containers' cgroups.
    cgroup: PathBuf,
}

impl OomDetector {
    /// Loads the causes that earlier processes decided.
    pub async fn load(cgroups: Cgroups, checkpoints: Checkpoints) -> Self {
        let MemoryKills(kills) = checkpoints.load_file().await;
        let oom = Self { checkpoints: Some(checkpoints), ..Self::new(cgroups) };
        {
            let mut known = oom.known.lock();
            known.causes = ExitCauses::loaded(kills);
            // They are older than the first list, so those missing in it are gone.
            known.missing = known.causes.ids().map(str::to_owned).collect();
        }
        oom
    }

    /// Does not save causes: for tests and short runs.
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, ..Self::default() }
    }

    /// A pod was inspected. Earlier kills in its cgroup do not belong to future containers.
    pub(super) async fn observe_pod(&self, record: &SandboxRecord) {
        let Some(pid) = record.pid() else { return };
        // Above a pod without a parent cgroup is the whole machine's cgroup.
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

    /// A container was inspected. If Docker is restarting it, or has done so, a run has ended, and nobody will
    /// ask for the cause of this end. The end also explains kills.
    pub(super) async fn observe_container(&self, record: &ContainerRecord) {
        let Process::Running { pid, started_at } = record.process else { return };
        let seen = self.known.lock().runs.get(record.id.as_str()).copied();
        if pid == 0 || seen.is_some_and(|seen| seen != started_at) {
            self.attribute_kills(record).await;
        }
        if pid != 0 {
            self.known.lock().is_running(record, started_at);
        }
    }

    /// The cause of an end, if it was decided before, is obvious, or follows from the kernel's counts. None
    /// if the engine may still learn of it.
    pub(super) async fn exit_cause(&self, record: &ContainerRecord) -> Option<ExitCause> {
        let Process::Exited { finished_at, .. } = record.process else { return None };
        let decided = self.known.lock().causes.of(record.id.as_str(), finished_at);
        if decided.is_some() {
            return decided;
        }
        let oom_killed = self.attribute_kills(record).await;
        // The event of a SIGKILL that the engine sent may arrive after the end, so it is looked up last.
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

    /// Whether kills that nothing else explains belong to this end. None if that cannot be known. Only the
    /// first call for an end returns true, because the kills are then attributed.
    async fn attribute_kills(&self, record: &ContainerRecord) -> Option<bool> {
        let _lock = self.counting.lock().await;
        let (cgroup, ended) = self.known.lock().has_ended(record)?;
        let path = cgroup.clone();
        let count = blocking(move || KillCount::read(&path, &ended)).await;
        self.known.lock().attribute(record, &cgroup, count)
    }

    pub(super) async fn record_cause(&self, record: &ContainerRecord, cause: ExitCause) {
        let Process::Exited { finished_at, .. } = record.process else { return };
        self.known.lock().causes.put(record.id.as_str(), (finished_at, cause));
        if cause == ExitCause::OutOfMemory {
            self.save().await;
        }
    }

    pub(super) fn record(&self, id: &str, event: KillEvent, at: Nanos) {
        self.known.lock().events.entry(id.to_owned()).or_default().insert(event, at);
    }

    /// Whether the engine sent a SIGKILL in the run that has ended.
    pub(super) fn was_killed_by_engine(&self, record: &ContainerRecord) -> bool {
        let Process::Exited { finished_at, .. } = record.process else { return false };
        let known = self.known.lock();
        // A call after the end did not cause it.
        let own = known.latest(record, KillEvent::OwnKill).is_some_and(|at| at <= finished_at);
        own || !record.hides_signals && known.latest(record, KillEvent::EngineKill).is_some()
    }

    /// Whether there was an `oom` event in the run that has ended.
    pub(super) fn had_oom_event(&self, record: &ContainerRecord) -> bool {
        self.known.lock().latest(record, KillEvent::OutOfMemory).is_some()
    }

    /// Forgets containers that are missing in this list and in the previous one. One list proves nothing,
    /// because it may have begun before the container was created. The caller must call [`Self::save`]
    /// afterwards.
    pub(super) fn retain(&self, is_listed: impl Fn(&str) -> bool) {
        let mut known = self.known.lock();
        let missing = known.ids().filter(|id| !is_listed(id)).map(str::to_owned).collect();
        let before = std::mem::replace(&mut known.missing, missing);
        let keeps = |id: &str| is_listed(id) || !before.contains(id);
        known.retain(keeps);
    }

    /// A container is gone. The caller must call [`Self::save`] afterwards.
    pub(super) fn forget(&self, id: &str) {
        self.known.lock().forget(id);
    }

    /// Whether all causes that the engine does not know are saved.
    pub(super) fn is_saved(&self) -> bool {
        !self.known.lock().causes.is_unsaved
    }

    /// Saves them if necessary, and waits for a running save. A failure is logged. The next save then
    /// includes them.
    pub(super) async fn save(&self) {
        let _lock = self.saving.lock().await;
        let Some(kills) = self.known.lock().causes.take_unsaved() else { return };
        let Some(checkpoints) = &self.checkpoints else { return };
        if let Err(error) = checkpoints.save_file(&MemoryKills(kills)).await {
            self.known.lock().causes.is_unsaved = true;
            let error = chain(&error);
            warn!(error, "cannot save OOM kills; after a restart they are shown as plain errors");
        }
    }
}

impl Known {
    /// A container of a known pod has ended. Returns the pod's cgroup, and all containers that ended in it.
    fn has_ended(&mut self, record: &ContainerRecord) -> Option<(PathBuf, HashSet<String>)> {
        let cgroup = self.pods.get(&record.document.sandbox)?.cgroup.clone();
        let accounting = self.accounting.get_mut(&cgroup)?;
        accounting.ended.insert(record.id.to_string());
        Some((cgroup, accounting.ended.clone()))
    }

    /// The container runs, even if an earlier run of it has ended: kills that its own cgroup counts belong to no
    /// ended container.
    fn is_running(&mut self, record: &ContainerRecord, started_at: Nanos) {
        self.runs.insert(record.id.to_string(), started_at);
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
        let seen = self.runs.remove(record.id.as_str());
        if !self.accounting.get_mut(cgroup)?.attribute(count)? {
            return Some(false);
        }
        // Docker has restarted the container, and the end of the run before was not seen. The kills may belong to it.
        if seen.is_some_and(|seen| record.process.started_at() != Some(seen)) {
            return None;
        }
        // Kills are also counted in a cgroup that several pods share, because only one of them may remain.
        // Until then it is unknown which pod a kill belongs to.
        let pod = self.pods.get(&record.document.sandbox)?;
        let parents = CgroupParents::of(self.pods.values().map(|pod| &*pod.document));
        parents.is_own(&pod.document).then_some(true)
    }

    /// When the event last happened in the run that has ended, not in an earlier one.
    fn latest(&self, record: &ContainerRecord, event: KillEvent) -> Option<Nanos> {
        let Process::Exited { started_at, .. } = record.process else { return None };
        let at = *self.events.get(record.id.as_str())?.get(&event)?;
        (at >= started_at).then_some(at)
    }

    fn ids(&self) -> impl Iterator<Item = &str> {
        let pods = self.pods.keys().map(SandboxId::as_str);
        let containers = self.causes.ids().chain(self.events.keys().map(String::as_str));
        let ended = self.accounting.values().flat_map(|one| &one.ended).map(String::as_str);
        pods.chain(containers).chain(ended).chain(self.runs.keys().map(String::as_str))
    }

    /// Its pod's accounting keeps its entry until the lists lack it.
    fn forget(&mut self, id: &str) {
        self.causes.forget(id);
        self.runs.remove(id);
        self.events.remove(id);
    }

    fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.causes.retain(&keeps);
        self.runs.retain(|id, _| keeps(id));
        self.events.retain(|id, _| keeps(id));
        self.pods.retain(|id, _| keeps(id.as_str()));
        let cgroups: HashSet<&PathBuf> = self.pods.values().map(|pod| &pod.cgroup).collect();
        self.accounting.retain(|cgroup, _| cgroups.contains(cgroup));
        self.accounting.values_mut().for_each(|one| one.ended.retain(|id| keeps(id)));
    }
}

/// Whether it ended by a SIGKILL whose cause the engine does not report.
pub(super) fn is_unexplained_kill(record: &ContainerRecord) -> bool {
    matches!(
        record.process,
        Process::Exited { exit_code: SIGKILLED, reason: ExitReason::Error, .. }
    )
}

pub(super) fn with_cause(cause: ExitCause, mut record: ContainerRecord) -> ContainerRecord {
    if let (ExitCause::OutOfMemory, Process::Exited { reason, .. }) = (cause, &mut record.process) {
        *reason = ExitReason::OomKilled;
    }
    record
}

/// The cgroup above a container's, in a hierarchy that also counts events of cgroups below (v2).
fn pod_cgroup(cgroups: &Cgroups, pid: u32, id: &str) -> Option<PathBuf> {
    let cgroup = cgroups.find(pid, id).ok()?;
    let (hierarchy, path) = cgroup.directory("memory")?;
    let above = path.parent().filter(|_| hierarchy == Hierarchy::V2)?;
    Some(above.to_owned())
}

/// 128 + SIGKILL.
const SIGKILLED: i32 = 137;

#[cfg(test)]
mod tests;
