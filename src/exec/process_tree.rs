//! Which processes belong to one started in a container: decided from facts, without I/O.
//!
//! No single sign is reliable. A child's parent is known until the parent ends; a session until
//! a process begins its own; the output pipe until it is redirected; the marker in the environment
//! until it is cleared. A process that shows one of them belongs, and so do its children. A process
//! that was there before, or is not in the container, never does.

use std::collections::HashSet;

use crate::host::processes::{Identity, Process};

/// The main process, as it was when it was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Main {
    pub(super) who: Identity,
    /// It leads a session, which no process outside can have joined.
    pub(super) leads: bool,
    /// The pipes its output led to, without those of processes that were there before.
    pub(super) pipes: Vec<String>,
}

/// A process that began with or after the main one, in the same container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) process: Process,
    /// It holds a pipe of the main process's output.
    pub(super) holds_pipe: bool,
    /// It was given the marker of this exec.
    pub(super) marked: bool,
}

/// Which candidates belong, the main process included if it is among them.
pub(super) fn members(main: Option<&Main>, candidates: &[Candidate]) -> Vec<Identity> {
    let since = main.map_or(0, |main| main.who.started);
    let able = |one: &&Candidate| one.process.is_alive && one.process.who.started >= since;
    let able: Vec<&Candidate> = candidates.iter().filter(able).collect();
    let leader = main.filter(|main| has_session(main, candidates));
    let roots = able.iter().filter(|one| is_root(main, leader, one));
    let mut found: HashSet<u32> = roots.map(|one| one.process.who.pid).collect();
    loop {
        let before = found.len();
        for one in &able {
            if found.contains(&one.process.parent) {
                found.insert(one.process.who.pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    let belongs = able.iter().filter(|one| found.contains(&one.process.who.pid));
    belongs.map(|one| one.process.who).collect()
}

/// Which candidates a hang-up of the main process's terminal concerns: its session, without processes
/// that have left it.
pub(super) fn session(main: Option<&Main>, candidates: &[Candidate]) -> Vec<Identity> {
    let Some(main) = main else { return Vec::new() };
    let leads = has_session(main, candidates);
    let concerned = candidates.iter().map(|one| one.process).filter(|one| {
        let shares = leads && one.session == main.who.pid;
        one.is_alive && one.who.started >= main.who.started && (one.who == main.who || shares)
    });
    concerned.map(|one| one.who).collect()
}

/// Whether its identity, session, pipes or marker show that the process belongs to the command. A parent of the
/// main process's pid counts only while no other process has that pid, and then the main process is a root
/// itself or has no children.
fn is_root(main: Option<&Main>, leader: Option<&Main>, one: &Candidate) -> bool {
    main.is_some_and(|main| one.process.who == main.who)
        || leader.is_some_and(|leader| one.process.session == leader.who.pid)
        || one.holds_pipe
        || one.marked
}

/// Whether processes with the main process's session id are in its session. The kernel reuses a pid only
/// after the last process of its session has ended: a later process with this pid leads another session.
fn has_session(main: &Main, candidates: &[Candidate]) -> bool {
    let reused =
        |one: &Candidate| one.process.who.pid == main.who.pid && one.process.who != main.who;
    main.leads && !candidates.iter().any(reused)
}
