//! OOMKilled: finds whether a container that SIGKILL ended ran out of memory, if the engine does not know.
//!
//! The engine learns of an OOM kill from a shim that watches the container's cgroup. The cgroup may be gone
//! before the shim has read it, because systemd removes a scope as soon as it is empty. The kernel also
//! counts the kill in all parent cgroups, and the pod's cgroup exists longer than those of its containers.
//! dockbridge attributes a kill in the pod's cgroup to the container that has just ended, unless an existing
//! cgroup or a container that ended earlier explains the kill. dockbridge does so at each end, even if the
//! cause of the end is known, because the next container would otherwise get the kills.
//!
//! On cgroup v1 each cgroup has its own count, which disappears with the cgroup. dockbridge then learns of a
//! kill only from the engine: from an inspect, or from an `oom` event after the end.
//!
//! dockbridge does not change a cause that the store has shown, because kubelet reads an end only once.

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
    kill_accounting::{KillAccounting, kills_of_ended},
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

/// Determines why containers ended. Clones share their data.
#[derive(Clone, Debug, Default)]
pub struct OomDetector {
    cgroups: Cgroups,
    /// No task holds this lock while it reads files, because the store's writer also needs the lock.
    known: Arc<Mutex<Known>>,
    /// Held from the read of the kernel's counts until the kills are attributed, by one task at a time.
    counting: Arc<tokio::sync::Mutex<()>>,
    /// The state directory for causes that the engine does not know. `None` if causes are not saved.
    checkpoints: Option<Checkpoints>,
    /// Held during a save, so that the last save has the latest causes.
    saving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<SandboxId, Pod>,
    accounting: HashMap<PathBuf, KillAccounting>,
    causes: ExitCauses,
    /// By container: start time of the last run that an inspect showed, until an inspect shows its end.
    runs: HashMap<String, Nanos>,
    /// By container: when each kind of event last happened.
    events: HashMap<String, HashMap<KillEvent, Nanos>>,
    /// Containers in any of these tables that were not in the engine's last list.
    missing: HashSet<String>,
}

/// An event that may explain the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KillEvent {
    EngineKill,
    /// dockbridge is about to ask the engine to kill the container. If the container hides signals, no event
    /// of the engine will report this kill.
    OwnKill,
    /// The engine sent an `oom` event. If the event comes after the end, no inspect reports the kill.
    OutOfMemory,
}

#[derive(Debug)]
struct Pod {
    document: Arc<SandboxDocument>,
    cgroup: PathBuf,
}

impl OomDetector {
    /// Loads the causes that earlier dockbridge processes have determined.
    pub async fn load(cgroups: Cgroups, checkpoints: Checkpoints) -> Self {
        let MemoryKills(kills) = checkpoints.load_file().await;
        let oom = Self { checkpoints: Some(checkpoints), ..Self::new(cgroups) };
        {
            let mut known = oom.known.lock();
            known.causes = ExitCauses::loaded(kills);
            // Containers with a saved cause are older than the first list, so a missing one is gone.
            known.missing = known.causes.ids().map(str::to_owned).collect();
        }
        oom
    }

    /// A detector that does not save causes, for tests and short runs.
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, ..Self::default() }
    }

    /// Records an inspected pod and the number of kills in its cgroup so far, which belong to earlier containers.
    pub(super) async fn observe_pod(&self, record: &SandboxRecord) {
        let Some(pid) = record.pid() else { return };
        // Without a cgroup parent, the parent would be the cgroup of the whole machine.
        if record.document.parent().is_empty() || self.known.lock().pods.contains_key(&record.id) {
            return;
        }
        let _lock = self.counting.lock().await;
        let (cgroups, id) = (self.cgroups.clone(), record.id.clone());
        let counted = blocking(move || {
            let cgroup = pod_cgroup(&cgroups, pid, id.as_str())?;
            let count = kills_of_ended(&cgroup, &HashSet::new())?;
            Some((cgroup, count))
        });
        if let Some((cgroup, count)) = counted.await {
            let mut known = self.known.lock();
            known.accounting.entry(cgroup.clone()).or_default().begin(count);
            let pod = Pod { document: Arc::clone(&record.document), cgroup };
            known.pods.insert(record.id.clone(), pod);
        }
    }

    /// Records an inspected container. If Docker has restarted it, attributes kills to the end of its earlier
    /// run: otherwise the next end would get them.
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

    /// The cause of an end, if it was determined earlier, is obvious, or follows from the kernel's counts.
    /// `None` if the engine may still learn the cause.
    pub(super) async fn exit_cause(&self, record: &ContainerRecord) -> Option<ExitCause> {
        let Process::Exited { finished_at, .. } = record.process else { return None };
        let decided = self.known.lock().causes.of(record.id.as_str(), finished_at);
        if decided.is_some() {
            return decided;
        }
        let oom_killed = self.attribute_kills(record).await;
        // The event of the engine's SIGKILL may arrive after the end, so this check comes last.
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

    /// Attributes all unexplained kills in the pod's cgroup to this end, and returns whether there were any.
    /// `None` if dockbridge cannot know whether there were any. Only the first call for an end can return
    /// true.
    async fn attribute_kills(&self, record: &ContainerRecord) -> Option<bool> {
        let _lock = self.counting.lock().await;
        let (cgroup, ended) = self.known.lock().has_ended(record)?;
        let path = cgroup.clone();
        let count = blocking(move || kills_of_ended(&path, &ended)).await;
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

    /// Whether the engine sent a SIGKILL since the start of the run that has ended.
    pub(super) fn was_killed_by_engine(&self, record: &ContainerRecord) -> bool {
        let Process::Exited { finished_at, .. } = record.process else { return false };
        let known = self.known.lock();
        // A kill that dockbridge requested after the end did not cause the end.
        let own = known.latest(record, KillEvent::OwnKill).is_some_and(|at| at <= finished_at);
        own || !record.hides_signals && known.latest(record, KillEvent::EngineKill).is_some()
    }

    /// Whether the engine sent an `oom` event since the start of the run that has ended.
    pub(super) fn had_oom_event(&self, record: &ContainerRecord) -> bool {
        self.known.lock().latest(record, KillEvent::OutOfMemory).is_some()
    }

    /// Forgets containers that the last two lists lack. A single list may have begun before a container was
    /// created. The caller must call [`Self::save`] afterwards.
    pub(super) fn retain(&self, is_listed: impl Fn(&str) -> bool) {
        let mut known = self.known.lock();
        let missing = known.ids().filter(|id| !is_listed(id)).map(str::to_owned).collect();
        let before = std::mem::replace(&mut known.missing, missing);
        let keeps = |id: &str| is_listed(id) || !before.contains(id);
        known.retain(keeps);
    }

    /// Forgets a container that is gone. The caller must call [`Self::save`] afterwards.
    pub(super) fn forget(&self, id: &str) {
        self.known.lock().forget(id);
    }

    /// Whether all causes that only dockbridge knows are saved.
    pub(super) fn is_saved(&self) -> bool {
        !self.known.lock().causes.is_unsaved
    }

    /// Saves the causes that only dockbridge knows, if they have changed. Waits for a save that already runs.
    /// Logs a failure; the next save then includes these causes.
    pub(super) async fn save(&self) {
        let _lock = self.saving.lock().await;
        let Some(kills) = self.known.lock().causes.take_unsaved() else { return };
        let Some(checkpoints) = &self.checkpoints else { return };
        if let Err(error) = checkpoints.save_file(&MemoryKills(kills)).await {
            self.known.lock().causes.is_unsaved = true;
            let error = chain(&error);
            warn!(
                error,
                "cannot save OOM kills; after a restart of dockbridge they are shown as plain errors"
            );
        }
    }
}

impl Known {
    /// Records the end of a container. Returns the pod's cgroup, and all containers that have ended in it.
    fn has_ended(&mut self, record: &ContainerRecord) -> Option<(PathBuf, HashSet<String>)> {
        let cgroup = self.pods.get(&record.document.sandbox)?.cgroup.clone();
        let accounting = self.accounting.get_mut(&cgroup)?;
        accounting.ended.insert(record.id.to_string());
        Some((cgroup, accounting.ended.clone()))
    }

    /// Records that a container runs. Kills in its cgroup then belong to no ended container.
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
        count: Option<u64>,
    ) -> Option<bool> {
        let seen = self.runs.remove(record.id.as_str());
        if !self.accounting.get_mut(cgroup)?.attribute(count)? {
            return Some(false);
        }
        // dockbridge did not see the end of the container's earlier run. The kills may belong to that end.
        if seen.is_some_and(|seen| record.process.started_at() != Some(seen)) {
            return None;
        }
        // While several pods share a cgroup, dockbridge cannot know to which pod a kill belongs. dockbridge
        // still counts the kills, because later only one of the pods may remain.
        let pod = self.pods.get(&record.document.sandbox)?;
        let parents = CgroupParents::of(self.pods.values().map(|pod| &*pod.document));
        parents.is_own(&pod.document).then_some(true)
    }

    /// When the event last happened since the start of the run that has ended.
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

    /// Forgets a container. The accounting of the pod's cgroup keeps the container while the engine lists it.
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

/// Whether the container ended with the exit code of a SIGKILL, and the engine reports no cause.
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

/// The parent of a container's cgroup, only with cgroup v2, which also counts events of the cgroups below.
fn pod_cgroup(cgroups: &Cgroups, pid: u32, id: &str) -> Option<PathBuf> {
    let cgroup = cgroups.find(pid, id).ok()?;
    let (hierarchy, path) = cgroup.directory("memory")?;
    let above = path.parent().filter(|_| hierarchy == Hierarchy::V2)?;
    Some(above.to_owned())
}

/// Exit code of a process that SIGKILL ended: 128 + 9.
const SIGKILLED: i32 = 137;

#[cfg(test)]
mod tests;
