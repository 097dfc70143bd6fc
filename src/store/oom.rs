//! OOMKilled: finds whether a container that SIGKILL ended ran out of memory, if the engine does not know.
//!
//! The engine learns of an OOM kill from a shim that watches the container's cgroup. The cgroup may be gone before the
//! shim has read it, because systemd removes a scope as soon as it is empty. On cgroup v2, the kernel also counts the
//! kill in all cgroups above, and the pod's cgroup exists longer than those of its containers. dockbridge attributes
//! new kills in the pod's cgroup to the container that has just ended, even after exit code 0, because the next
//! container would otherwise get them. dockbridge does not count kills in cgroups of containers that have not ended,
//! and cannot attribute kills in a cgroup that several pods share.
//!
//! On cgroup v1 each cgroup has its own count of OOM kills, which disappears with the cgroup. On cgroup v1,
//! dockbridge learns only from the engine that an OOM kill ended a container: from an inspect or an `oom` event.
//!
//! kubelet reads an end only once, so dockbridge keeps a cause that the store has shown, unless a later inspect
//! reports an OOM kill (decision 0022).

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

/// Determines which ended containers ran out of memory. Clones share their data.
#[derive(Clone, Debug, Default)]
pub struct OomDetector {
    cgroups: Cgroups,
    /// No task holds this lock while it reads files, because the store's writer also needs the lock.
    known: Arc<Mutex<Known>>,
    /// Held from the read of the kernel's counts until the kills are attributed, by one task at a time.
    counting: Arc<tokio::sync::Mutex<()>>,
    /// The state directory, where dockbridge saves OOM kills that inspects do not report. `None` to save nothing.
    checkpoints: Option<Checkpoints>,
    /// Held during a save, so that the last save has the latest causes.
    saving: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<SandboxId, Pod>,
    accounting: HashMap<PathBuf, KillAccounting>,
    causes: ExitCauses,
    /// By container: start time of the last run during which dockbridge inspected it, until dockbridge has looked
    /// for kills at the end of that run.
    runs: HashMap<String, Nanos>,
    /// By container: when each kind of event last happened.
    events: HashMap<String, HashMap<KillEvent, Nanos>>,
    /// Pods and containers in any of these tables that were not in the engine's last list.
    missing: HashSet<String>,
}

/// An event that may explain the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KillEvent {
    EngineKill,
    /// dockbridge is about to ask the engine to kill the container. If the container has a label named `signal`, the
    /// engine's event will not show that this is a SIGKILL.
    OwnKill,
    /// The engine sent an `oom` event. If the event comes after the end, inspects might not report the kill.
    OutOfMemory,
}

#[derive(Debug)]
struct Pod {
    document: Arc<SandboxDocument>,
    cgroup: PathBuf,
}

impl OomDetector {
    /// Loads the OOM kills that earlier dockbridge processes have saved.
    pub async fn load(cgroups: Cgroups, checkpoints: Checkpoints) -> Self {
        let MemoryKills(kills) = checkpoints.load_file().await;
        let oom = Self { checkpoints: Some(checkpoints), ..Self::new(cgroups) };
        {
            let mut known = oom.known.lock();
            known.causes = ExitCauses::loaded(kills);
            // Containers with a saved cause are older than the first list, so one that this list lacks is gone.
            known.missing = known.causes.ids().map(str::to_owned).collect();
        }
        oom
    }

    /// A detector that does not save causes.
    pub fn new(cgroups: Cgroups) -> Self {
        Self { cgroups, ..Self::default() }
    }

    /// Records an inspected pod that runs, has a cgroup parent and is not recorded yet. If no other recorded pod uses
    /// the same cgroup, all kills there so far count as attributed, except those in cgroups of existing containers.
    pub(super) async fn observe_pod(&self, record: &SandboxRecord) {
        let Some(pid) = record.pid() else { return };
        // Without a cgroup parent, the cgroup above the pod's containers, such as `/docker`, also has others.
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

    /// Records an inspected container that runs. If Docker restarts or has restarted it, attributes the new kills to
    /// the end of its earlier run: otherwise the next end would get them.
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

    /// The cause of the container's end, if dockbridge can determine it without another inspect. `None` also if the
    /// container has not ended.
    pub(super) async fn exit_cause(&self, record: &ContainerRecord) -> Option<ExitCause> {
        let Process::Exited { finished_at, .. } = record.process else { return None };
        let decided = self.known.lock().causes.of(record.id.as_str(), finished_at);
        if decided.is_some() {
            return decided;
        }
        let oom_killed = self.attribute_kills(record).await;
        // The event of the engine's SIGKILL may arrive after the end, so this check comes after the slow read above.
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

    /// Attributes the new kills in the pod's cgroup, without those of running containers, to this end. Returns whether
    /// there were new kills; `None` if dockbridge cannot know this, or to which end the kills belong. No kill counts
    /// in two calls.
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

    /// Whether a SIGKILL of the engine explains the end: since the start of the run, dockbridge requested one before
    /// the end, or, if no label hides the container's signals, the engine reported one.
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

    /// Forgets pods and containers that the last two lists lack. A single list may have begun before a pod or
    /// container was created. The caller must call [`Self::save`] afterwards.
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

    /// Whether [`Self::save`] has nothing to save.
    pub(super) fn is_saved(&self) -> bool {
        !self.known.lock().causes.is_unsaved
    }

    /// Saves the OOM kills that inspects do not report, if they have changed. Waits for a save that already runs.
    /// Logs a failure; the next save then includes the kills that were not saved.
    pub(super) async fn save(&self) {
        let _lock = self.saving.lock().await;
        let Some(kills) = self.known.lock().causes.take_unsaved() else { return };
        let Some(checkpoints) = &self.checkpoints else { return };
        if let Err(error) = checkpoints.save_file(&MemoryKills(kills)).await {
            self.known.lock().causes.is_unsaved = true;
            let error = chain(&error);
            warn!(
                error,
                "cannot save OOM kills; if dockbridge restarts before a later save succeeds, they are shown as plain errors"
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
        // dockbridge did not see the end of the container's earlier run, to which the kills may belong.
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

    /// Forgets a container. The accounting of the pod's cgroup keeps it until two lists in a row lack it.
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

/// The cgroup above the pause container's. `None` if the latter is not found, or without cgroup v2: only cgroup v2
/// also counts the kills in the cgroups below.
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
