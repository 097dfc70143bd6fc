//! Kills in a pod's group, and who they were; on trees as machines of version 2 show them.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use super::{
    Inquest, Verdict,
    account::{Account, Tally},
    around, by, is_doubtful,
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
fn a_kill_is_of_whom_nothing_else_explains_it() {
    let root = tempfile::tempdir().unwrap();
    let pod = root.path().join("pod.slice");
    let of = |id: &str| pod.join(format!("docker-{id}.scope"));
    // Killed there before this pod was met: nobody's.
    counted(&pod, 3);
    counted(&of("pause"), 0);
    let mut account = Account::default();
    account.open(Tally::of(&pod, &HashSet::new()).unwrap());
    let mut ends = |id: &str| {
        account.ended.insert(id.to_owned());
        account.settle(Tally::of(&pod, &account.ended)).unwrap()
    };

    assert!(!ends("first"), "kills of earlier lives");
    counted(&pod, 4);
    assert!(ends("second"), "its group is gone");
    assert!(!ends("third"), "the second explains it");

    // A child of one that lives on.
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
fn a_count_that_begins_anew() {
    let tally = |all| Tally { all, alive: 0 };
    let mut account = Account::default();
    account.open(tally(5));
    // The group was removed, and is another sandbox's of the pod.
    account.open(tally(0));
    assert_eq!(account.settle(Some(tally(1))), Some(true));
    // While the first was known its pod came again, in the same group: nothing is forgiven.
    account.open(tally(2));
    assert_eq!(account.settle(Some(tally(2))), Some(true));
    assert_eq!(account.settle(Some(tally(1))), Some(false));
    assert_eq!(account.settle(Some(tally(2))), Some(true));
    // Kills of which nobody could be told are not the next one's.
    assert_eq!(account.settle(None), None);
    assert_eq!(account.settle(Some(tally(4))), None);
    assert_eq!(account.settle(Some(tally(4))), Some(false));
}

#[tokio::test]
async fn one_list_without_it_forgets_nothing() {
    let inquest = Inquest::default();
    let dead = ended(137, ExitReason::Error);
    inquest.close(&dead, Verdict::NoMemory).await;
    inquest.sentence(dead.id.as_str(), Nanos(i64::MAX));
    let told = async || (inquest.hold(&dead).await, inquest.is_sentenced(&dead));
    for there in [false, true, false] {
        inquest.keep(|_| there);
        assert_eq!(told().await, (Some(Verdict::NoMemory), true));
    }
    inquest.keep(|_| false);
    assert_eq!(told().await, (None, false));
}

#[test]
fn only_where_it_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let (pod, nobody) = (root.path().join("pod"), HashSet::new());
    assert_eq!(Tally::of(&pod, &nobody), None);
    fs::create_dir_all(pod.join("child")).unwrap();
    assert_eq!(Tally::of(&pod, &nobody), None, "no memory controller");
    fs::write(pod.join("memory.events"), "low 0\nmax x\noom_kill x\n").unwrap();
    assert_eq!(Tally::of(&pod, &nobody), None);
    counted(&pod, 1);
    assert_eq!(Tally::of(&pod, &nobody), Some(Tally { all: 1, alive: 0 }));
}

#[test]
fn the_group_around_a_pod() {
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
        around(&Cgroups::told_by(&proc), 42, &id)
    };
    let pod: PathBuf = root.path().join("cg/pod");
    assert_eq!(machine("cgroup2", "rw", "0::/pod/ID\n"), Some(pod));
    // Version 1 does not add up what happens below.
    assert_eq!(machine("cgroup", "rw,memory", "5:memory:/pod/ID\n"), None);
    assert_eq!(machine("cgroup2", "rw", "0::/elsewhere\n"), None);
}

#[test]
fn ends_that_leave_a_question() {
    let running = fixture::container(2, 1, Process::Running { pid: 1, started_at: Nanos(1) });
    for (record, doubtful) in [
        (running, false),
        (ended(0, ExitReason::Completed), false),
        (ended(1, ExitReason::Error), false),
        (ended(137, ExitReason::CannotRun), false),
        (ended(137, ExitReason::OomKilled), false),
        (ended(0, ExitReason::OomKilled), false),
        (ended(137, ExitReason::Error), true),
    ] {
        assert_eq!(is_doubtful(&record), doubtful, "{record:?}");
    }
    let doubtful = ended(137, ExitReason::Error);
    assert_eq!(by(Verdict::AsTold, doubtful.clone()), doubtful);
    assert_eq!(by(Verdict::NoMemory, doubtful), ended(137, ExitReason::OomKilled));
}

/// What is stored of an end goes with its container.
#[tokio::test]
async fn the_gone_are_not_kept() {
    let root = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::open(root.path()).unwrap();
    let load = || Inquest::load(Cgroups::default(), checkpoints.clone());
    let (inquest, record) = (load().await, ended(137, ExitReason::Error));
    inquest.close(&record, Verdict::NoMemory).await;
    assert_eq!(load().await.hold(&record).await, Some(Verdict::NoMemory));
    inquest.keep(|id| id == record.id.as_str());
    assert!(inquest.is_saved(), "nothing is gone");
    inquest.keep(|_| false);
    assert!(inquest.is_saved(), "one list proves nothing");
    inquest.keep(|_| false);
    assert!(!inquest.is_saved());
    inquest.save().await;
    assert!(inquest.is_saved());
    assert_eq!(load().await.hold(&record).await, None);
    let stored = root.path().join("memory-kills.json");
    assert!(!stored.exists());
    // Of one that is known to be gone nobody waits for lists.
    inquest.close(&record, Verdict::NoMemory).await;
    assert!(stored.exists());
    let later = load().await;
    later.keep(|_| false);
    assert!(!later.is_saved(), "what an earlier run knew one list proves");
    inquest.forget(record.id.as_str());
    inquest.save().await;
    assert!(!stored.exists());
    assert_eq!(inquest.hold(&record).await, None);
}
