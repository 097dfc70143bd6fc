//! Changes that wait up to ten seconds until all containers of their pod are inspected, because an event contains
//! the status of the whole pod. A container whose inspect hangs does not delay the changes of other pods.

use std::time::Duration;

use tokio::time::Instant;

use super::{changes::Change, snapshot::Snapshot};
use crate::model::id::SandboxId;

/// The changes that wait for inspects, by pod. The changes of one pod keep their order.
#[derive(Debug, Default)]
pub struct PendingChanges {
    pods: Vec<PendingPod>,
}

#[derive(Debug)]
struct PendingPod {
    id: SandboxId,
    changes: Vec<Change>,
    /// Time at which the changes no longer wait for inspects. For a container that is not inspected, the event then
    /// has the state from the engine's list.
    deadline: Instant,
}

impl PendingChanges {
    /// Adds changes, which wait until [`Self::take_ready`] returns them.
    pub fn push(&mut self, changes: Vec<Change>, now: Instant) {
        for change in changes {
            let id = &change.sandbox.id;
            match self.pods.iter_mut().find(|pod| pod.id == *id) {
                Some(pod) => pod.changes.push(change),
                None => self.pods.push(PendingPod {
                    id: id.clone(),
                    deadline: now + INSPECT_TIMEOUT,
                    changes: vec![change],
                }),
            }
        }
    }

    /// Removes and returns the changes of pods whose containers are all inspected in `shown`, or whose deadline
    /// is over.
    pub fn take_ready(&mut self, shown: &Snapshot, now: Instant) -> Vec<Change> {
        let is_inspected = |id: &SandboxId| {
            !shown.containers_of(id).any(|container| container.process.is_listed())
        };
        let is_ready = |pod: &mut PendingPod| pod.deadline <= now || is_inspected(&pod.id);
        self.pods.extract_if(.., is_ready).flat_map(|pod| pod.changes).collect()
    }

    /// The earliest deadline of all waiting pods.
    pub fn deadline(&self) -> Option<Instant> {
        self.pods.iter().map(|pod| pod.deadline).min()
    }
}

/// How long the changes of a pod may wait for inspects.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        model::{
            event::ContainerEventType::{self, Started, Stopped},
            record::{ListedState, Process},
        },
        store::{fixture, index::Index},
    };

    fn change(pod: u64, step: ContainerEventType) -> Change {
        let sandbox = Arc::new(fixture::sandbox(pod, Process::Created));
        Change { id: fixture::hex(pod + 10), step, sandbox }
    }

    /// A snapshot with a container of pod 1 and a container of pod 2.
    fn shown(first: Process, second: Process) -> Snapshot {
        let containers = [fixture::container(11, 1, first), fixture::container(12, 2, second)];
        let containers = Index::new(containers.into_iter().map(Arc::new).collect());
        Snapshot { containers: Arc::new(containers), ..Snapshot::empty() }
    }

    #[test]
    fn a_pod_waits_for_its_own_inspects_only() {
        let (listed, seen) = (Process::Listed(ListedState::Running), Process::Created);
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        pending.push(vec![change(1, Started), change(2, Started)], now);
        let half = shown(listed.clone(), seen.clone());
        assert_eq!(pending.take_ready(&half, now), [change(2, Started)]);
        pending.push(vec![change(1, Stopped), change(2, Stopped)], now);
        assert_eq!(pending.take_ready(&half, now), [change(2, Stopped)]);
        assert_eq!(
            pending.take_ready(&shown(seen, listed), now),
            [change(1, Started), change(1, Stopped)]
        );
        assert_eq!(pending.deadline(), None);
    }

    #[test]
    fn a_pod_that_is_never_inspected_waits_for_a_bounded_time() {
        let listed = || Process::Listed(ListedState::Running);
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        pending.push(vec![change(1, Started)], now);
        pending.push(vec![change(1, Stopped)], now + INSPECT_TIMEOUT / 2);
        let never = shown(listed(), listed());
        assert!(pending.take_ready(&never, now).is_empty());
        let deadline = pending.deadline().unwrap();
        assert_eq!(pending.take_ready(&never, deadline).len(), 2);
    }
}
