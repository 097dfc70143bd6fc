//! Tests of the OOM detector. The files with the kernel's counts have the form of cgroup v2.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ExitCause, KillEvent, Known, OomDetector, Pod, is_unexplained_kill,
    kill_accounting::{KillAccounting, kills_of_ended},
    pod_cgroup, with_cause,
};
use crate::{
    checkpoint::directory::Checkpoints,
    host::cgroup::Cgroups,
    model::{
        record::{ContainerRecord, ExitReason, Process},
        time::Nanos,
    },
    store::fixture,
};

fn counted(place: &Path, kills: u64) {
    fs::create_dir_all(place).unwrap();
    let text = format!("low 0\nhigh 0\nmax 7\noom 9\noom_kill {kills}\noom_group_kill 5\n");
    fs::write(place.join("memory.events"), text).unwrap();
}

fn ended(exit_code: i32, reason: ExitReason) -> ContainerRecord {
    let process = Process::Exited {
        started_at: Nanos(1),
        finished_at: Nanos(2),
        exit_code,
        reason,
        message: String::new(),
    };
    fixture::container(2, 1, process)
}

#[test]
fn a_kill_is_attributed_to_the_container_that_ended_since() {
    let root = tempfile::tempdir().unwrap();
    let pod = root.path().join("pod.slice");
    let of = |id: &str| pod.join(format!("docker-{id}.scope"));
    // Kills from before this pod existed do not belong to its containers.
    counted(&pod, 3);
    counted(&of("pause"), 0);
    let mut accounting = KillAccounting::default();
    accounting.begin(kills_of_ended(&pod, &HashSet::new()).unwrap());
    let mut ends = |id: &str| {
        accounting.ended.insert(id.to_owned());
        accounting.attribute(kills_of_ended(&pod, &accounting.ended)).unwrap()
    };

    assert!(!ends("first"), "kills before the pod");
    counted(&pod, 4);
    assert!(ends("second"), "its group is gone");
    assert!(!ends("third"), "the second explains it");

    // The kernel killed two child processes of a container that still runs.
    counted(&pod, 6);
    counted(&of("lasting"), 2);
    assert!(!ends("fourth"));
    counted(&pod, 7);
    counted(&of("fifth"), 1);
    assert!(ends("fifth"), "its group is still there");
    assert!(!ends("sixth"), "the fifth explains it");
    fs::remove_dir_all(of("fifth")).unwrap();
    assert!(!ends("seventh"), "it still does");
    fs::remove_dir_all(of("lasting")).unwrap();
    assert!(ends("lasting"), "those it survived before it ended");
}

#[test]
fn a_cgroup_created_anew_counts_from_zero() {
    let mut accounting = KillAccounting::default();
    accounting.begin(5);
    // The cgroup is removed, and created again for the pod's next sandbox.
    accounting.begin(0);
    assert_eq!(accounting.attribute(Some(1)), Some(true));
    // Another sandbox uses the same cgroup, which still exists, so the count continues.
    accounting.begin(2);
    assert_eq!(accounting.attribute(Some(2)), Some(true));
    assert_eq!(accounting.attribute(Some(1)), Some(false));
    assert_eq!(accounting.attribute(Some(2)), Some(true));
    // Kills from a time in which the counts were unreadable are not attributed to the next container.
    assert_eq!(accounting.attribute(None), None);
    assert_eq!(accounting.attribute(Some(4)), None);
    assert_eq!(accounting.attribute(Some(4)), Some(false));
}

/// If Docker restarts a container, dockbridge may see only the end of the second run.
#[test]
fn a_kill_is_not_attributed_to_a_run_if_the_end_of_the_run_before_was_not_seen() {
    let cgroup = PathBuf::from("/pod");
    let mut known = Known::default();
    let mut document = fixture::sandbox_document(1);
    document.spec.cgroup_parent = "/pod".to_owned();
    let pod = Pod { document: Arc::new(document), cgroup: cgroup.clone() };
    known.pods.insert(fixture::sandbox_id(1), pod);
    known.accounting.insert(cgroup.clone(), KillAccounting::default());
    let mut ends = |seen: Option<i64>, kills| {
        let record = ended(137, ExitReason::Error);
        seen.into_iter().for_each(|at| known.is_running(&record, Nanos(at)));
        known.attribute(&record, &cgroup, Some(kills))
    };
    ends(None, 0);
    assert_eq!(ends(Some(0), 1), None, "the kill may be the end of the run before");
    assert_eq!(ends(None, 2), Some(true), "no earlier run was seen");
    assert_eq!(ends(Some(1), 3), Some(true), "this run was seen");
    assert_eq!(ends(Some(0), 3), Some(false), "there was no kill");
}

#[tokio::test]
async fn one_list_that_lacks_a_container_forgets_nothing() {
    let oom = OomDetector::default();
    let dead = ended(137, ExitReason::Error);
    oom.record_cause(&dead, ExitCause::OutOfMemory).await;
    oom.record(dead.id.as_str(), KillEvent::EngineKill, Nanos(i64::MAX));
    let known = async || (oom.exit_cause(&dead).await, oom.was_killed_by_engine(&dead));
    for listed in [false, true, false] {
        oom.retain(|_| listed);
        assert_eq!(known().await, (Some(ExitCause::OutOfMemory), true));
    }
    oom.retain(|_| false);
    assert_eq!(known().await, (None, false));
}

/// If a container has a label named `signal`, its kill events have the label's text instead of the signal, so
/// they do not prove that the engine sent a SIGKILL.
#[tokio::test]
async fn a_label_named_signal_is_no_signal() {
    let oom = OomDetector::default();
    let plain = ended(137, ExitReason::Error);
    let labelled = ContainerRecord { hides_signals: true, ..plain.clone() };
    oom.record(plain.id.as_str(), KillEvent::EngineKill, Nanos(i64::MAX));
    oom.record(plain.id.as_str(), KillEvent::OutOfMemory, Nanos(i64::MAX));
    assert_eq!(oom.exit_cause(&labelled).await, Some(ExitCause::OutOfMemory));
    oom.forget(plain.id.as_str());
    oom.record(plain.id.as_str(), KillEvent::EngineKill, Nanos(i64::MAX));
    assert_eq!(oom.exit_cause(&labelled).await, None);
    assert_eq!(oom.exit_cause(&plain).await, Some(ExitCause::AsReported));
}

/// If dockbridge itself killed the container, StopContainer must not wait until the engine reports the cause.
#[tokio::test]
async fn a_kill_of_our_own_explains_an_end_without_an_event() {
    let oom = OomDetector::default();
    let labelled = ContainerRecord { hides_signals: true, ..ended(137, ExitReason::Error) };
    oom.record(labelled.id.as_str(), KillEvent::OwnKill, Nanos(2));
    assert_eq!(oom.exit_cause(&labelled).await, Some(ExitCause::AsReported));
    for (at, reason) in [(0, "an earlier run was killed"), (3, "it had ended before the call")] {
        oom.forget(labelled.id.as_str());
        oom.record(labelled.id.as_str(), KillEvent::OwnKill, Nanos(at));
        assert_eq!(oom.exit_cause(&labelled).await, None, "{reason}");
    }
}

#[test]
fn no_count_without_the_memory_controller() {
    let root = tempfile::tempdir().unwrap();
    let (pod, nobody) = (root.path().join("pod"), HashSet::new());
    assert_eq!(kills_of_ended(&pod, &nobody), None);
    fs::create_dir_all(pod.join("child")).unwrap();
    assert_eq!(kills_of_ended(&pod, &nobody), None, "no memory controller");
    fs::write(pod.join("memory.events"), "low 0\nmax x\noom_kill x\n").unwrap();
    assert_eq!(kills_of_ended(&pod, &nobody), None);
    counted(&pod, 1);
    assert_eq!(kills_of_ended(&pod, &nobody), Some(1));
}

#[test]
fn the_cgroup_of_a_pod_on_v2_alone() {
    let root = tempfile::tempdir().unwrap();
    let proc = root.path().join("proc");
    let id = fixture::hex(7);
    let machine = |kind: &str, options: &str, line: &str| {
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::create_dir_all(proc.join("42")).unwrap();
        fs::create_dir_all(root.path().join("cg/pod").join(&id)).unwrap();
        let point = root.path().join("cg");
        let mount = format!("3 4 0:5 / {} rw - {kind} {kind} {options}\n", point.display());
        fs::write(proc.join("self/mountinfo"), mount).unwrap();
        fs::write(proc.join("42/cgroup"), line.replace("ID", &id)).unwrap();
        pod_cgroup(&Cgroups::from_proc(&proc), 42, &id)
    };
    let pod: PathBuf = root.path().join("cg/pod");
    assert_eq!(machine("cgroup2", "rw", "0::/pod/ID\n"), Some(pod));
    // On cgroup v1, a cgroup does not count OOM kills in the cgroups below.
    assert_eq!(machine("cgroup", "rw,memory", "5:memory:/pod/ID\n"), None);
    assert_eq!(machine("cgroup2", "rw", "0::/elsewhere\n"), None);
}

#[test]
fn only_a_kill_by_signal_without_a_reason_is_unexplained() {
    let running = fixture::container(2, 1, Process::Running { pid: 1, started_at: Nanos(1) });
    for (record, unexplained) in [
        (running, false),
        (ended(0, ExitReason::Completed), false),
        (ended(1, ExitReason::Error), false),
        (ended(137, ExitReason::CannotRun), false),
        (ended(137, ExitReason::OomKilled), false),
        (ended(0, ExitReason::OomKilled), false),
        (ended(137, ExitReason::Error), true),
    ] {
        assert_eq!(is_unexplained_kill(&record), unexplained, "{record:?}");
    }
    let killed = ended(137, ExitReason::Error);
    assert_eq!(with_cause(ExitCause::AsReported, killed.clone()), killed);
    assert_eq!(with_cause(ExitCause::OutOfMemory, killed), ended(137, ExitReason::OomKilled));
}

#[tokio::test]
async fn a_saved_cause_goes_with_its_container() {
    let root = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::open(root.path()).unwrap();
    let load = || OomDetector::load(Cgroups::default(), checkpoints.clone());
    let (oom, record) = (load().await, ended(137, ExitReason::Error));
    oom.record_cause(&record, ExitCause::OutOfMemory).await;
    assert_eq!(load().await.exit_cause(&record).await, Some(ExitCause::OutOfMemory));
    oom.retain(|id| id == record.id.as_str());
    assert!(oom.is_saved(), "nothing is gone");
    oom.retain(|_| false);
    assert!(oom.is_saved(), "one list proves nothing");
    oom.retain(|_| false);
    assert!(!oom.is_saved());
    oom.save().await;
    assert!(oom.is_saved());
    assert_eq!(load().await.exit_cause(&record).await, None);
    let stored = root.path().join("memory-kills.json");
    assert!(!stored.exists());
    // The OOM detector forgets a container at once if dockbridge knows that the container is gone.
    oom.record_cause(&record, ExitCause::OutOfMemory).await;
    assert!(stored.exists());
    let later = load().await;
    later.retain(|_| false);
    assert!(!later.is_saved(), "one list is enough for what an earlier run saved");
    oom.forget(record.id.as_str());
    oom.save().await;
    assert!(!stored.exists());
    assert_eq!(oom.exit_cause(&record).await, None);
}
