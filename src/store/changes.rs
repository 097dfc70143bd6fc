//! What happened to containers and pods between two snapshots, told in the order of a life.
//!
//! Who follows changes this way can be as slow as they like: nothing is queued for them, and what
//! came and went between two looks never was visible to anybody. A change is never told before a
//! snapshot shows it, because it is found there.

use std::{collections::HashMap, sync::Arc};

use super::snapshot::Snapshot;
use crate::model::{
    event::ContainerEventType,
    id::SandboxId,
    record::{ContainerRecord, ExitReason, Listed, Process, SandboxRecord, SandboxState},
    time::Nanos,
};

/// One step, of one container or pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Id of the container, or of the sandbox when it is the pod's own.
    pub id: String,
    /// What happened.
    pub step: ContainerEventType,
    /// Its pod, as the newer snapshot shows it; as it was last seen when it is gone.
    pub sandbox: Arc<SandboxRecord>,
}

/// Follows snapshots. Begins with what is there, of which nothing is told.
#[derive(Debug)]
pub struct Follower {
    /// Nothing was followed yet: what only a list is known of is taken as it is listed.
    begins: bool,
    lives: HashMap<String, Life>,
    /// Pods, those included that are gone but still have containers.
    pods: HashMap<SandboxId, Arc<SandboxRecord>>,
}

/// How far a life had come, and whose it is.
#[derive(Clone, Debug)]
struct Life {
    stage: Stage,
    pod: SandboxId,
    seen: bool,
}

/// How far a life has come. The times tell one run of a container from its next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Created,
    Running(Nanos),
    /// With the time the run began, none when it never did.
    Ended(Option<Nanos>, Nanos),
}

impl Follower {
    /// Follows from `now` on.
    pub fn new(now: &Snapshot) -> Self {
        let mut follower = Self { begins: true, lives: HashMap::new(), pods: HashMap::new() };
        follower.changes(now);
        follower.begins = false;
        follower
    }

    /// What happened since the last call: pods come before their containers and go after them.
    /// A container of a pod that was never seen is left out: nothing could be said of its pod.
    pub fn changes(&mut self, now: &Snapshot) -> Vec<Change> {
        for life in self.lives.values_mut() {
            life.seen = false;
        }
        for pod in now.sandboxes() {
            self.pods.insert(pod.id.clone(), Arc::clone(pod));
        }
        let mut told = Vec::new();
        // A pod that ends ends after its containers, so it is looked at twice.
        for pod in now.sandboxes().iter().rev() {
            self.pod(pod, Half::Beginning, &mut told);
        }
        for container in now.containers().iter().rev() {
            self.container(container, &mut told);
        }
        for pod in now.sandboxes().iter().rev() {
            self.pod(pod, Half::End, &mut told);
        }
        self.bury(&mut told);
        told
    }

    fn container(&mut self, record: &ContainerRecord, told: &mut Vec<Change>) {
        let (id, pod) = (record.id.as_str(), &record.document.sandbox);
        if self.pods.contains_key(pod) {
            let stage = of_process(&record.process, self.begins);
            self.advance(id, pod, stage, told);
        }
    }

    fn pod(&mut self, record: &SandboxRecord, half: Half, told: &mut Vec<Change>) {
        let id = record.id.as_str();
        let before = self.lives.get(id).map(|life| life.stage);
        let stage = of_pod(record, before, self.begins);
        if before.is_none() && !is_known(stage, self.begins) {
            return;
        }
        let ends = matches!(stage, Some(Stage::Ended(..)));
        if ends == (half == Half::End) {
            self.advance(id, &record.id, stage, told);
        } else if let Some(life) = self.lives.get_mut(id) {
            life.seen = true;
        }
    }

    /// Tells the steps between the stage it had and the one it has; none when that is unknown.
    fn advance(&mut self, id: &str, pod: &SandboxId, stage: Option<Stage>, told: &mut Vec<Change>) {
        let before = self.lives.get(id).map(|life| life.stage);
        let stage = stage.or(before).unwrap_or(Stage::Created);
        for step in steps(before, stage) {
            self.tell(id, step, pod, told);
        }
        self.lives.insert(id.to_owned(), Life { stage, pod: pod.clone(), seen: true });
    }

    /// Whatever was not seen this time is gone: containers first, then pods.
    fn bury(&mut self, told: &mut Vec<Change>) {
        let gone: Vec<(String, SandboxId)> = self
            .lives
            .iter()
            .filter(|(_, life)| !life.seen)
            .map(|(id, life)| (id.clone(), life.pod.clone()))
            .collect();
        let (pods, containers): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|(id, pod)| id == pod.as_str());
        for (id, pod) in containers.into_iter().chain(pods) {
            self.tell(&id, ContainerEventType::Deleted, &pod, told);
            self.lives.remove(&id);
        }
        let lives = &self.lives;
        let has_some = |id: &SandboxId| lives.values().any(|life| life.pod == *id);
        self.pods.retain(|id, _| lives.contains_key(id.as_str()) || has_some(id));
    }

    fn tell(&self, id: &str, step: ContainerEventType, pod: &SandboxId, told: &mut Vec<Change>) {
        if let Some(sandbox) = self.pods.get(pod) {
            told.push(Change { id: id.to_owned(), step, sandbox: Arc::clone(sandbox) });
        }
    }
}

/// Which part of a pod's life is being told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Beginning,
    End,
}

/// The steps from one stage to another. A life that came back, or one whose end was missed, is
/// told as the run that ended and the one that began.
fn steps(before: Option<Stage>, now: Stage) -> Vec<ContainerEventType> {
    use ContainerEventType::{Created, Started, Stopped};
    let born = if before.is_none() { vec![Created] } else { Vec::new() };
    let rest: &[ContainerEventType] = match (before.unwrap_or(Stage::Created), now) {
        (one, other) if one == other => &[],
        // It cannot become unstarted; an engine that says so is not followed.
        (_, Stage::Created) => &[],
        // The engine thought better of when it ended.
        (Stage::Ended(Some(run), _), Stage::Ended(Some(same), _)) if is_one(run, same) => &[],
        (Stage::Running(run), Stage::Running(same)) if is_one(run, same) => &[],
        (Stage::Running(_), Stage::Running(_)) => &[Stopped, Started],
        (_, Stage::Running(_)) => &[Started],
        (Stage::Running(began), Stage::Ended(run, _))
            if run.is_none_or(|run| is_one(run, began)) =>
        {
            &[Stopped]
        }
        // Listed as ended, and it never ran.
        (Stage::Ended(Some(Nanos::UNSET), _), Stage::Ended(None, _)) => &[],
        (Stage::Running(_), Stage::Ended(..)) => &[Stopped, Started, Stopped],
        (_, Stage::Ended(Some(_), _)) => &[Started, Stopped],
        (_, Stage::Ended(None, _)) => &[Stopped],
    };
    born.into_iter().chain(rest.iter().copied()).collect()
}

/// Whether two runs, by their beginnings, are one. A list knows no times.
fn is_one(run: Nanos, other: Nanos) -> bool {
    run == other || !run.is_set() || !other.is_set()
}

/// Whether a pod is told of from now on: who goes by events makes another pod for one that is shown
/// created and not ready, and one that never becomes ready is cleared away by who asked for it.
const fn is_known(stage: Option<Stage>, begins: bool) -> bool {
    match stage {
        Some(Stage::Running(_)) => true,
        Some(Stage::Ended(..)) => begins,
        Some(Stage::Created) | None => false,
    }
}

/// None while nobody knows. What a list says is not told: the look to come knows more.
fn of_process(process: &Process, begins: bool) -> Option<Stage> {
    match process {
        Process::Created => Some(Stage::Created),
        Process::Listed(_) if !begins => None,
        Process::Listed(Listed::Running) => Some(Stage::Running(Nanos::UNSET)),
        // One that could not be started is listed as created: its end is no news.
        Process::Listed(Listed::Created | Listed::Exited { .. }) => {
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

/// A pod starts when it is ready and stops when its own process is gone; what its network does
/// in between is no step.
fn of_pod(record: &SandboxRecord, before: Option<Stage>, begins: bool) -> Option<Stage> {
    let process = match &record.process {
        // Docker has lost it.
        None => Some(Stage::Ended(None, Nanos::UNSET)),
        Some(process) => of_process(process, begins),
    };
    match process {
        // Its process was started anew: what is told of it now is the end of the run before.
        Some(Stage::Running(at)) if !record.is_as_connected() => match before {
            Some(Stage::Running(began)) => Some(Stage::Ended(Some(began), at)),
            before => before.or(Some(Stage::Ended(None, at))),
        },
        Some(Stage::Running(_)) if record.state() != SandboxState::Ready => {
            before.or(Some(Stage::Created))
        }
        // One that never was ready never started.
        Some(Stage::Ended(_, at)) => match before {
            Some(Stage::Running(began)) => Some(Stage::Ended(Some(began), at)),
            // Ended once is ended, also when Docker loses it afterwards.
            Some(ended @ Stage::Ended(..)) => Some(ended),
            _ => Some(Stage::Ended(None, at)),
        },
        stage => stage,
    }
}

#[cfg(test)]
mod tests;
