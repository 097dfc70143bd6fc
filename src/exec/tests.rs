//! Tests which processes belong to an exec command, and how dockbridge looks for them.

use std::{fs, os::unix::fs::symlink, path::Path, sync::mpsc, thread, time::Duration};

use super::{
    process::{Scans, until_next_look},
    process_lookup::{ProcessFinder, Signalled},
    process_tree::{Candidate, Main, members, session},
};
use crate::host::{
    cgroup::Cgroups,
    processes::{Identity, Process, Processes},
};

const MAIN: u32 = 100;
const BEGUN: u64 = 5000;

fn main() -> Main {
    Main { who: Identity { pid: MAIN, started: BEGUN }, leads: true, pipes: Vec::new() }
}

/// A process whose session, output and environment do not show that it belongs to the command.
fn stranger(pid: u32, parent: u32) -> Candidate {
    let who = Identity { pid, started: BEGUN + 1 };
    let process = Process { who, parent, group: pid, session: pid, is_alive: true };
    Candidate { process, holds_pipe: false, marked: false }
}

fn of_main(pid: u32, parent: u32) -> Candidate {
    let mut one = stranger(pid, parent);
    one.process.session = MAIN;
    one
}

fn itself() -> Candidate {
    let mut one = of_main(MAIN, 1);
    one.process.who.started = BEGUN;
    one
}

fn pids(main: Option<&Main>, table: &[Candidate]) -> Vec<u32> {
    members(main, table).into_iter().map(|who| who.pid).collect()
}

/// A pause between two inspects is at most 1 ms or a quarter of the time since the first inspect, whichever is longer.
#[test]
fn a_process_is_found_soon_after_it_runs_and_not_asked_for_often() {
    let (mut passed, mut looks) = (Duration::ZERO, 0);
    while passed < Duration::from_secs(1) {
        let pause = until_next_look(passed);
        assert!(pause <= (passed / 4).max(Duration::from_millis(1)), "{pause:?} after {passed:?}");
        passed += pause;
        looks += 1;
    }
    assert!(looks < 40, "{looks} in the first second");
}

/// A failed scan may have missed a process, so it does not count as empty. It does not count as a kill either.
#[test]
fn a_failed_scan_is_repeated_and_kills_nothing() {
    let of = |signalled, unclear| Some(Signalled { signalled, unclear });
    let scanned = |scans: &[Option<Signalled>]| {
        let mut all = Scans::default();
        let ended: Vec<bool> = scans.iter().map(|scan| all.add(*scan)).collect();
        (ended.iter().position(|ended| *ended), all.killed)
    };
    assert_eq!(scanned(&[of(0, 0); 10]), (Some(1), false));
    assert_eq!(scanned(&[None, of(0, 0), None, of(0, 0), of(0, 0)]), (Some(4), false));
    assert_eq!(scanned(&[of(0, 0), of(2, 0), of(0, 0), of(0, 0)]), (Some(3), true));
    assert_eq!(scanned(&[of(0, 1), of(0, 1), of(0, 0)]), (Some(2), false));
}

#[test]
fn one_sign_of_the_command_is_enough() {
    let main = main();
    let piped = Candidate { holds_pipe: true, ..stranger(107, 1) };
    let marked = Candidate { marked: true, ..stranger(108, 1) };
    let check = |what: &str, table: &[Candidate], wanted: &[u32]| {
        assert_eq!(pids(Some(&main), table), wanted, "{what}");
    };
    check("itself", &[itself()], &[100]);
    check("a child that began a session", &[itself(), stranger(101, 100)], &[100, 101]);
    check("an orphan of its session", &[itself(), of_main(102, 1)], &[100, 102]);
    check("an orphan of a main process that has ended", &[of_main(103, 1)], &[103]);
    check("a holder of its pipe", &[piped], &[107]);
    check("a bearer of its marker", &[marked], &[108]);
    check("a stranger", &[itself(), stranger(109, 1)], &[100]);
}

#[test]
fn descendants_of_a_process_of_the_command_belong_in_whatever_order_they_are_listed() {
    let main = main();
    let marked = Candidate { marked: true, ..stranger(150, 1) };
    let table =
        [stranger(153, 152), stranger(152, 151), stranger(151, 150), marked, stranger(160, 1)];
    assert_eq!(pids(Some(&main), &table), [153, 152, 151, 150]);
}

#[test]
fn who_was_there_before_never_belongs() {
    let main = main();
    let mut elder = Candidate { marked: true, holds_pipe: true, ..of_main(90, 100) };
    elder.process.who.started = BEGUN - 1;
    assert!(pids(Some(&main), &[elder]).is_empty());
}

#[test]
fn a_main_process_without_a_session_of_its_own_does_not_claim_one() {
    let main = Main { leads: false, ..main() };
    assert_eq!(pids(Some(&main), &[itself(), of_main(101, 1)]), [100]);
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut other = itself();
    other.process.who.started = BEGUN + 500;
    other.process.session = 1;
    assert!(pids(Some(&main()), &[other.clone(), stranger(101, 100)]).is_empty());
}

#[test]
fn what_has_ended_is_left_alone() {
    let mut dead = itself();
    dead.process.is_alive = false;
    assert!(pids(Some(&main()), &[dead]).is_empty());
}

/// While dockbridge still ends processes that the main process has left behind, a process of another exec can
/// get the main process's pid.
#[test]
fn a_session_of_a_reused_pid_is_another_one() {
    let mut reused = of_main(MAIN, 1);
    reused.process.who.started = BEGUN + 5;
    let marked = Candidate { marked: true, ..stranger(102, 1) };
    let table = [reused, of_main(101, MAIN), marked];
    assert_eq!(pids(Some(&main()), &table), [102]);
    assert!(session(Some(&main()), &table).is_empty());
}

#[test]
fn without_a_main_process_only_the_marker_counts() {
    let marked = Candidate { marked: true, ..stranger(108, 1) };
    assert_eq!(pids(None, &[itself(), marked, stranger(109, 108)]), [108, 109]);
}

#[test]
fn a_hang_up_ends_the_session_and_not_processes_that_left_it() {
    let table = [itself(), of_main(101, 100), of_main(102, 1), stranger(103, 100)];
    let concerned = |main: Option<&Main>| -> Vec<u32> {
        session(main, &table).into_iter().map(|who| who.pid).collect()
    };
    assert_eq!(concerned(Some(&main())), [100, 101, 102]);
    assert_eq!(concerned(Some(&Main { leads: false, ..main() })), [100]);
    assert!(concerned(None).is_empty());
}

/// Adds a process to the test's own process table. The standard output of the process leads to `output`.
fn list(table: &Path, pid: u32, started: u64, group: &str, output: &str) {
    let place = table.join(pid.to_string());
    fs::create_dir_all(place.join("fd")).unwrap();
    let zeros = "0 ".repeat(15);
    fs::write(place.join("stat"), format!("{pid} (x) S 1 1 1 {zeros}{started} 0\n")).unwrap();
    fs::write(place.join("cgroup"), format!("0::/docker/{group}\n")).unwrap();
    symlink(output, place.join("fd/1")).unwrap();
}

#[test]
fn an_earlier_pipe_is_no_mark_of_a_command() {
    let table = tempfile::tempdir().unwrap();
    list(table.path(), 1, BEGUN - 9, "ours", "pipe:[7]");
    list(table.path(), 2, BEGUN - 9, "theirs", "pipe:[8]");
    list(table.path(), MAIN + 1, BEGUN, "ours", "pipe:[8]");
    let finder = ProcessFinder {
        processes: Processes::new(table.path()),
        groups: Cgroups::from_proc(table.path()),
        container: "ours".to_owned(),
        init: None,
        marker: None,
    };
    let own = |output: &str| {
        let _ = fs::remove_dir_all(table.path().join(MAIN.to_string()));
        list(table.path(), MAIN, BEGUN, "ours", output);
        finder.own_pipes(Identity { pid: MAIN, started: BEGUN })
    };
    assert!(own("pipe:[7]").is_empty(), "the container's own output");
    assert_eq!(own("pipe:[8]"), ["pipe:[8]"]);
    assert!(own("/dev/null").is_empty());
}

/// If dockbridge can list the container's cgroup, it reads only the processes of the container, because a host may have
/// many others. In this test, reading the process `MAIN + 2`, which is outside of the container, would block forever.
#[test]
fn only_the_processes_of_the_container_are_looked_at() {
    let root = tempfile::tempdir().unwrap();
    let (table, groups) = (root.path().join("proc"), root.path().join("groups"));
    list(&table, 1, BEGUN - 9, "ours", "/dev/null");
    list(&table, MAIN, BEGUN, "ours", "pipe:[7]");
    list(&table, MAIN + 1, BEGUN, "ours", "pipe:[7]");
    list(&table, MAIN + 2, BEGUN, "theirs", "pipe:[7]");
    let stat = table.join((MAIN + 2).to_string()).join("stat");
    fs::remove_file(&stat).unwrap();
    nix::unistd::mkfifo(&stat, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let inner = groups.join("docker/ours/made/within");
    fs::create_dir_all(&inner).unwrap();
    fs::write(groups.join("docker/ours/cgroup.procs"), format!("1\n{MAIN}\n")).unwrap();
    fs::write(inner.join("cgroup.procs"), format!("{}\n", MAIN + 1)).unwrap();
    fs::create_dir(table.join("self")).unwrap();
    let mounted = format!("1 2 0:3 / {} rw - cgroup2 cgroup2 rw\n", groups.display());
    fs::write(table.join("self/mountinfo"), mounted).unwrap();
    let finder = ProcessFinder {
        processes: Processes::new(&table),
        groups: Cgroups::from_proc(&table),
        container: "ours".to_owned(),
        init: Some(1),
        marker: None,
    };
    let main = Identity { pid: MAIN, started: BEGUN };
    let (done, looked) = mpsc::channel();
    thread::spawn(move || {
        let members = finder.members(None).unwrap();
        let pids: Vec<u32> = members.iter().map(|one| one.who.pid).collect();
        let _ = done.send((pids, finder.own_pipes(main)));
    });
    let (members, own) =
        looked.recv_timeout(Duration::from_secs(300)).expect("nobody else is read");
    assert_eq!(members, [1, MAIN, MAIN + 1]);
    assert_eq!(own, ["pipe:[7]"]);
}
