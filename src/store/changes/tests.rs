//! Tests that changes are reported once and in order, even if one snapshot is the first to show several changes.

use std::sync::Arc;

use super::{Change, ChangeTracker};
use crate::{
    model::{
        attachment::Attachment,
        event::ContainerEventType,
        record::{ExitReason, Process, SandboxRecord},
        time::Nanos,
    },
    store::{fixture, index::Index, snapshot::Snapshot},
};

fn running(at: i64) -> Process {
    Process::Running { pid: 7, started_at: Nanos(at) }
}

fn exited(from: i64, to: i64, reason: ExitReason) -> Process {
    let (started_at, finished_at) = (Nanos(from), Nanos(to));
    Process::Exited { started_at, finished_at, exit_code: 1, reason, message: String::new() }
}

/// The pause process and the container's process in a snapshot, and the changes that must be reported.
type Case<'a> = (Option<Process>, Option<Process>, &'a [(u64, ContainerEventType)]);

/// A snapshot with pod 2, which is ready while `pause` runs, and its container 3.
fn shown(pause: Option<Process>, container: Option<Process>) -> Snapshot {
    let pods = pause.map(|process| {
        let attachment = Some(fixture::attachment(2));
        Arc::new(SandboxRecord { attachment, ..fixture::sandbox(2, process) })
    });
    let containers = container.map(|process| Arc::new(fixture::container(3, 2, process)));
    Snapshot {
        sandboxes: Arc::new(Index::new(pods.into_iter().collect())),
        containers: Arc::new(Index::new(containers.into_iter().collect())),
        ..Snapshot::empty()
    }
}

fn steps_of(changes: &[Change]) -> Vec<(u64, ContainerEventType)> {
    let number = |id: &str| u64::from_str_radix(id, 16).unwrap();
    changes.iter().map(|change| (number(&change.id), change.step)).collect()
}

use ContainerEventType::{Created, Deleted, Started, Stopped};

#[test]
fn what_is_there_at_the_start_is_not_reported() {
    let mut tracker = ChangeTracker::new(&shown(Some(running(1)), Some(running(2))));
    assert!(tracker.changes(&shown(Some(running(1)), Some(running(2)))).is_empty());
}

#[test]
fn a_lifecycle_is_reported_step_by_step() {
    let mut tracker = ChangeTracker::new(&shown(None, None));
    let end = exited(2, 3, ExitReason::Error);
    let cases: [Case<'_>; 7] = [
        (Some(running(1)), None, &[(2, Created), (2, Started)]),
        (Some(running(1)), Some(Process::Created), &[(3, Created)]),
        (Some(running(1)), Some(running(2)), &[(3, Started)]),
        (Some(running(1)), Some(end.clone()), &[(3, Stopped)]),
        (Some(exited(1, 4, ExitReason::Completed)), Some(end.clone()), &[(2, Stopped)]),
        (Some(exited(1, 4, ExitReason::Completed)), None, &[(3, Deleted)]),
        (None, None, &[(2, Deleted)]),
    ];
    for (pause, container, wanted) in cases {
        assert_eq!(steps_of(&tracker.changes(&shown(pause, container))), wanted);
    }
    assert!(tracker.objects.is_empty() && tracker.pods.is_empty(), "nothing is kept for ever");
}

#[test]
fn what_was_missed_is_reported_at_once_and_in_order() {
    let whole =
        shown(Some(exited(1, 9, ExitReason::Completed)), Some(exited(2, 3, ExitReason::Completed)));
    let mut tracker = ChangeTracker::new(&shown(Some(running(1)), None));
    let wanted = [(3, Created), (3, Started), (3, Stopped), (2, Stopped)];
    assert_eq!(steps_of(&tracker.changes(&whole)), wanted);
    assert_eq!(steps_of(&tracker.changes(&shown(None, None))), [(3, Deleted), (2, Deleted)]);
}

#[test]
fn every_exit_is_reported_once() {
    let pod = || Some(running(1));
    let mut tracker = ChangeTracker::new(&shown(pod(), Some(running(2))));
    let mut step = |process| steps_of(&tracker.changes(&shown(pod(), Some(process))));
    // An unknown state does not count as an exit.
    assert_eq!(step(Process::Unknown), []);
    assert_eq!(step(exited(2, 3, ExitReason::OomKilled)), [(3, Stopped)]);
    assert_eq!(step(exited(2, 3, ExitReason::OomKilled)), []);
    // The engine has corrected the time of the same exit.
    assert_eq!(step(exited(2, 5, ExitReason::OomKilled)), []);
    // The container was started again.
    assert_eq!(step(running(4)), [(3, Started)]);
    // No snapshot showed the end of the container's second run.
    assert_eq!(step(running(6)), [(3, Stopped), (3, Started)]);
    assert_eq!(step(exited(8, 9, ExitReason::Error)), [(3, Stopped), (3, Started), (3, Stopped)]);
    assert_eq!(step(exited(10, 11, ExitReason::Error)), [(3, Started), (3, Stopped)]);
}

#[test]
fn a_pod_that_docker_lost_ends_once() {
    let mut tracker = ChangeTracker::new(&shown(Some(running(1)), None));
    let mut lost = shown(Some(running(1)), None);
    let pod = SandboxRecord { process: None, ..(*lost.sandboxes()[0]).clone() };
    lost.sandboxes = Arc::new(Index::new(vec![Arc::new(pod)]));
    let ended = shown(Some(exited(1, 2, ExitReason::Error)), None);
    assert_eq!(steps_of(&tracker.changes(&ended)), [(2, Stopped)]);
    assert_eq!(steps_of(&tracker.changes(&lost)), []);
    assert_eq!(steps_of(&tracker.changes(&shown(None, None))), [(2, Deleted)]);
}

#[test]
fn a_failed_start_is_an_end_without_a_beginning() {
    let mut tracker = ChangeTracker::new(&shown(Some(running(1)), Some(Process::Created)));
    let failed = shown(Some(running(1)), Some(exited(1, 1, ExitReason::CannotRun)));
    assert_eq!(steps_of(&tracker.changes(&failed)), [(3, Stopped)]);
}

#[test]
fn a_pod_that_is_gone_is_remembered_for_its_containers() {
    let mut tracker = ChangeTracker::new(&shown(Some(running(1)), Some(running(2))));
    let changes = tracker.changes(&shown(None, Some(running(2))));
    assert_eq!(steps_of(&changes), [(2, Stopped), (2, Deleted)]);
    let changes = tracker.changes(&shown(None, Some(exited(2, 3, ExitReason::Error))));
    assert_eq!(steps_of(&changes), [(3, Stopped)]);
    assert_eq!(changes[0].sandbox.document.spec.metadata.name, "pod-2");
    assert_eq!(steps_of(&tracker.changes(&shown(None, None))), [(3, Deleted)]);
    assert!(tracker.pods.is_empty());
}

/// No snapshot shows the end of a container that ended and was removed while the event stream was broken.
#[test]
fn what_is_removed_before_its_end_was_seen_has_stopped() {
    let mut tracker = ChangeTracker::new(&shown(Some(running(1)), Some(running(2))));
    let gone = steps_of(&tracker.changes(&shown(Some(running(1)), None)));
    assert_eq!(gone, [(3, Stopped), (3, Deleted)]);
    tracker.changes(&shown(Some(running(1)), Some(Process::Created)));
    assert_eq!(steps_of(&tracker.changes(&shown(Some(running(1)), None))), [(3, Deleted)]);
}

#[test]
fn a_container_of_an_unknown_pod_is_left_out() {
    let mut tracker = ChangeTracker::new(&shown(None, None));
    assert!(tracker.changes(&shown(None, Some(running(1)))).is_empty());
    assert!(tracker.changes(&shown(None, None)).is_empty());
}

#[test]
fn a_pod_is_reported_when_it_is_ready() {
    let mut tracker = ChangeTracker::new(&shown(None, None));
    let unready = |process| {
        let mut now = shown(None, None);
        now.sandboxes = Arc::new(Index::new(vec![Arc::new(fixture::sandbox(2, process))]));
        now
    };
    for process in [Process::Created, running(1), exited(1, 2, ExitReason::Completed)] {
        assert_eq!(steps_of(&tracker.changes(&unready(process))), []);
    }
    assert_eq!(steps_of(&tracker.changes(&shown(None, None))), []);
    assert_eq!(steps_of(&tracker.changes(&unready(running(3)))), []);
    let ready = shown(Some(running(3)), None);
    assert_eq!(steps_of(&tracker.changes(&ready)), [(2, Created), (2, Started)]);
    let mut late = ChangeTracker::new(&unready(running(3)));
    assert_eq!(steps_of(&late.changes(&ready)), [(2, Created), (2, Started)]);
}

#[test]
fn a_pod_whose_process_was_started_anew_has_stopped() {
    let of_run = |now: i64| {
        let mut snapshot = shown(Some(running(now)), None);
        let mut pod = (*snapshot.sandboxes()[0]).clone();
        if let Some(Attachment::Ready { started_at, .. }) = &mut pod.attachment {
            *started_at = Some(Nanos(1));
        }
        snapshot.sandboxes = Arc::new(Index::new(vec![Arc::new(pod)]));
        snapshot
    };
    let mut tracker = ChangeTracker::new(&of_run(1));
    assert_eq!(steps_of(&tracker.changes(&of_run(1))), []);
    assert_eq!(steps_of(&tracker.changes(&of_run(5))), [(2, Stopped)]);
    assert_eq!(steps_of(&tracker.changes(&of_run(5))), []);
    assert_eq!(steps_of(&tracker.changes(&shown(None, None))), [(2, Deleted)]);
}
