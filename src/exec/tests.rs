//! The table of who belongs.

use super::kin::{Candidate, Main, kin};
use crate::host::processes::{Identity, Process};

const MAIN: u32 = 100;
const BEGUN: u64 = 5000;

fn main() -> Main {
    Main { who: Identity { pid: MAIN, started: BEGUN }, leads: true, pipes: Vec::new() }
}

/// A process with no trace of its own.
fn stranger(pid: u32, parent: u32) -> Candidate {
    let who = Identity { pid, started: BEGUN + 1 };
    let process = Process { who, parent, session: pid, lives: true };
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
    kin(main, table).into_iter().map(|who| who.pid).collect()
}

#[test]
fn each_trace_suffices() {
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
fn children_of_kin_are_kin_in_whatever_order_they_are_listed() {
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
fn a_pid_used_again_is_somebody_else() {
    let mut other = itself();
    other.process.who.started = BEGUN + 500;
    other.process.session = 1;
    assert!(pids(Some(&main()), &[other.clone(), stranger(101, 100)]).is_empty());
}

#[test]
fn what_has_ended_is_left_alone() {
    let mut dead = itself();
    dead.process.lives = false;
    assert!(pids(Some(&main()), &[dead]).is_empty());
}

#[test]
fn without_a_main_process_only_the_marker_counts() {
    let marked = Candidate { marked: true, ..stranger(108, 1) };
    assert_eq!(pids(None, &[itself(), marked, stranger(109, 108)]), [108, 109]);
}
