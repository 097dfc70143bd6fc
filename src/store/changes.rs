//! Finds what happened between two snapshots, in the order of lifecycles, for the CRI's container events.
//! The caller should compare every snapshot: a container or pod that appears and disappears between two compared
//! snapshots is not reported. The newer snapshot already shows the effect of each reported change.

use std::{collections::HashMap, sync::Arc};

use super::snapshot::Snapshot;
use crate::model::{
    event::ContainerEventType,
    id::SandboxId,
    record::{ContainerRecord, ExitReason, ListedState, Process, SandboxRecord, SandboxState},
    time::Nanos,
};

/// One lifecycle step of one container or pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Id of the container, or of the sandbox if this is a step of the pod itself.
    pub id: String,
    pub step: ContainerEventType,
    /// The pod as in the newer snapshot. If the pod is gone, the pod as in the last snapshot that had it.
    pub sandbox: Arc<SandboxRecord>,
}

/// Compares each snapshot with the one before.
#[derive(Debug)]
pub struct ChangeTracker {
    /// Whether this is the first snapshot, in which pods and containers may have only the state of the list.
    is_first: bool,
    objects: HashMap<String, Object>,
    /// All pods, including pods that are gone but still have containers.
    pods: HashMap<SandboxId, Arc<SandboxRecord>>,
}

/// A container or pod, and its stage in the last snapshot.
#[derive(Clone, Debug)]
struct Object {
    stage: Stage,
    pod: SandboxId,
    present: bool,
}

/// The times distinguish the runs of a container or pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Created,
    Running(Nanos),
    /// When the run started (`None` if its start failed or is unknown), and when it ended.
    Ended(Option<Nanos>, Nanos),
}

impl ChangeTracker {
    /// Creates a tracker that reports changes after the snapshot `now`.
    pub fn new(now: &Snapshot) -> Self {
        let mut tracker = Self { is_first: true, objects: HashMap::new(), pods: HashMap::new() };
        tracker.changes(now);
        tracker.is_first = false;
        tracker
    }

    /// Reports the changes since the last call. A pod's creation comes before the changes of its containers, the
    /// pod's removal after them. Leaves out a container whose pod is unknown: an event must have its pod.
    pub fn changes(&mut self, now: &Snapshot) -> Vec<Change> {
        for object in self.objects.values_mut() {
            object.present = false;
        }
        for pod in now.sandboxes() {
            self.pods.insert(pod.id.clone(), Arc::clone(pod));
        }
        // The ends of pods are reported after the ends of the containers in this snapshot.
        let (mut changes, mut ends) = (Vec::new(), Vec::new());
        for pod in now.sandboxes().iter().rev() {
            self.pod(pod, &mut changes, &mut ends);
        }
        for container in now.containers().iter().rev() {
            self.container(container, &mut changes);
        }
        changes.append(&mut ends);
        self.remove_absent(&mut changes);
        changes
    }

    fn container(&mut self, record: &ContainerRecord, changes: &mut Vec<Change>) {
        let (id, pod) = (record.id.as_str(), &record.document.sandbox);
        if self.pods.contains_key(pod) {
            let stage = of_process(&record.process, self.is_first);
            self.advance(id, pod, stage, changes);
        }
    }

    fn pod(&mut self, record: &SandboxRecord, changes: &mut Vec<Change>, ends: &mut Vec<Change>) {
        let id = record.id.as_str();
        let before = self.objects.get(id).map(|object| object.stage);
        let stage = of_pod(record, before, self.is_first);
        let has_ended = matches!(stage, Some(Stage::Ended(..)));
        // A pod is not reported before it is ready: a kubelet that relies on events would create another pod.
        let is_reported = matches!(stage, Some(Stage::Running(_))) || (has_ended && self.is_first);
        if before.is_none() && !is_reported {
            return;
        }
        self.advance(id, &record.id, stage, if has_ended { ends } else { changes });
    }

    /// Reports the steps from the last known stage to `stage`. `None` means the last known stage, otherwise `Created`.
    fn advance(
        &mut self,
        id: &str,
        pod: &SandboxId,
        stage: Option<Stage>,
        changes: &mut Vec<Change>,
    ) {
        let before = self.objects.get(id).map(|object| object.stage);
        let stage = stage.or(before).unwrap_or(Stage::Created);
        for step in steps(before, stage) {
            self.report(id, step, pod, changes);
        }
        self.objects.insert(id.to_owned(), Object { stage, pod: pod.clone(), present: true });
    }

    /// Reports containers and then pods that are not in this snapshot as removed.
    fn remove_absent(&mut self, changes: &mut Vec<Change>) {
        let gone: Vec<(String, SandboxId)> = self
            .objects
            .iter()
            .filter(|(_, object)| !object.present)
            .map(|(id, object)| (id.clone(), object.pod.clone()))
            .collect();
        let (pods, containers): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|(id, pod)| id == pod.as_str());
        for (id, pod) in containers.into_iter().chain(pods) {
            let last = self.objects.remove(&id);
            if last.is_some_and(|object| matches!(object.stage, Stage::Running(_))) {
                // The pod or container was removed, and no snapshot showed its end.
                self.report(&id, ContainerEventType::Stopped, &pod, changes);
            }
            self.report(&id, ContainerEventType::Deleted, &pod, changes);
        }
        let objects = &self.objects;
        let has_some = |id: &SandboxId| objects.values().any(|object| object.pod == *id);
        self.pods.retain(|id, _| objects.contains_key(id.as_str()) || has_some(id));
    }

    fn report(
        &self,
        id: &str,
        step: ContainerEventType,
        pod: &SandboxId,
        changes: &mut Vec<Change>,
    ) {
        if let Some(sandbox) = self.pods.get(pod) {
            changes.push(Change { id: id.to_owned(), step, sandbox: Arc::clone(sandbox) });
        }
    }
}

/// The steps from one stage to another, including an end and a start that no snapshot showed.
fn steps(before: Option<Stage>, now: Stage) -> Vec<ContainerEventType> {
    use ContainerEventType::{Created, Started, Stopped};
    let created = if before.is_none() { vec![Created] } else { Vec::new() };
    let rest: &[ContainerEventType] = match (before.unwrap_or(Stage::Created), now) {
        (one, other) if one == other => &[],
        // A container that has started cannot be "created" again.
        (_, Stage::Created) => &[],
        // The run is the same, and the engine has only corrected the time of its end.
        (Stage::Ended(Some(run), _), Stage::Ended(Some(same), _)) if is_same_run(run, same) => &[],
        (Stage::Running(run), Stage::Running(same)) if is_same_run(run, same) => &[],
        (Stage::Running(_), Stage::Running(_)) => &[Stopped, Started],
        (_, Stage::Running(_)) => &[Started],
        (Stage::Running(began), Stage::Ended(run, _))
            if run.is_none_or(|run| is_same_run(run, began)) =>
        {
            &[Stopped]
        }
        // The list showed the container as created or ended, but the inspect shows that its start failed.
        (Stage::Ended(Some(Nanos::UNSET), _), Stage::Ended(None, _)) => &[],
        (Stage::Running(_), Stage::Ended(..)) => &[Stopped, Started, Stopped],
        (_, Stage::Ended(Some(_), _)) => &[Started, Stopped],
        (_, Stage::Ended(None, _)) => &[Stopped],
    };
    created.into_iter().chain(rest.iter().copied()).collect()
}

/// Whether two start times belong to the same run. A time from a list is unset, so it counts as equal.
fn is_same_run(run: Nanos, other: Nanos) -> bool {
    run == other || !run.is_set() || !other.is_set()
}

/// `None` if the stage is unknown, or if it comes from a list after the first snapshot: the next inspect says more.
fn of_process(process: &Process, is_first: bool) -> Option<Stage> {
    match process {
        Process::Created => Some(Stage::Created),
        Process::Listed(_) if !is_first => None,
        Process::Listed(ListedState::Running) => Some(Stage::Running(Nanos::UNSET)),
        // A list also shows a failed start as created, so a container that is listed as created counts as ended.
        Process::Listed(ListedState::Created | ListedState::Exited { .. }) => {
            Some(Stage::Ended(Some(Nanos::UNSET), Nanos::UNSET))
        }
        Process::Running { started_at, .. } => Some(Stage::Running(*started_at)),
        Process::Exited { reason: ExitReason::CannotRun, finished_at, .. } => {
            Some(Stage::Ended(None, *finished_at))
        }
        Process::Exited { started_at, finished_at, .. } => {
            Some(Stage::Ended(Some(*started_at), *finished_at))
        }
        Process::Unknown => None,
    }
}

/// The stage of a pod, from ready to the end of its pause process. A change of the network is not a step.
fn of_pod(record: &SandboxRecord, before: Option<Stage>, is_first: bool) -> Option<Stage> {
    let process = match &record.process {
        // Docker no longer has the pause container.
        None => Some(Stage::Ended(None, Nanos::UNSET)),
        Some(process) => of_process(process, is_first),
    };
    match process {
        // The pause process was restarted, which ends the earlier run of the pod.
        Some(Stage::Running(at)) if !record.has_same_pause_process() => match before {
            Some(Stage::Running(began)) => Some(Stage::Ended(Some(began), at)),
            before => before.or(Some(Stage::Ended(None, at))),
        },
        Some(Stage::Running(_)) if record.state() != SandboxState::Ready => {
            before.or(Some(Stage::Created))
        }
        // A pod that no snapshot showed as ready has no start time.
        Some(Stage::Ended(_, at)) => match before {
            Some(Stage::Running(began)) => Some(Stage::Ended(Some(began), at)),
            // The pod's end is already known.
            Some(ended @ Stage::Ended(..)) => Some(ended),
            _ => Some(Stage::Ended(None, at)),
        },
        stage => stage,
    }
}

#[cfg(test)]
mod tests;
