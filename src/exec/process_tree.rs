//! Decides, without I/O, which processes belong to an exec.
//!
//! No single sign is reliable: a parent may end, a process may begin its own session, redirect its output, or
//! clear the marker in its environment. So a process belongs to the exec if its session, its output or its
//! environment shows it, or if its parent belongs to the exec. A process that existed before the exec, or is
//! not in the container, never belongs to the exec.

use std::collections::HashSet;

use crate::host::processes::{Identity, Process};

/// The main process of an exec, as it was when dockbridge first saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Main {
    pub(super) who: Identity,
    /// Whether the process leads a session. All processes of this session belong to the exec.
    pub(super) leads: bool,
    /// The pipes of the process's standard output and error, without pipes of older processes of the container.
    pub(super) pipes: Vec<String>,
}

/// A process in the exec's container. If the main process is known, the candidate did not begin before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) process: Process,
    /// Whether the process has a pipe of the main process's output.
    pub(super) holds_pipe: bool,
    /// Whether the process has the marker of this exec in its environment.
    pub(super) marked: bool,
}

/// The candidates that belong to the exec and have not ended, including the main process.
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

/// The candidates that get SIGHUP when the main process's terminal is closed: the main process, and the
/// processes of the session that it leads.
pub(super) fn session(main: Option<&Main>, candidates: &[Candidate]) -> Vec<Identity> {
    let Some(main) = main else { return Vec::new() };
    let leads = has_session(main, candidates);
    let concerned = candidates.iter().map(|one| one.process).filter(|one| {
        let shares = leads && one.session == main.who.pid;
        one.is_alive && one.who.started >= main.who.started && (one.who == main.who || shares)
    });
    concerned.map(|one| one.who).collect()
}

/// Whether the identity, session, pipes or marker of the process `one` show that it belongs to the exec. A parent with
/// the main process's pid proves nothing, because the pid may have been reused.
fn is_root(main: Option<&Main>, leader: Option<&Main>, one: &Candidate) -> bool {
    main.is_some_and(|main| one.process.who == main.who)
        || leader.is_some_and(|leader| one.process.session == leader.who.pid)
        || one.holds_pipe
        || one.marked
}

/// Whether the main process's pid, as a session id, means the session that the main process began. If a later process
/// has this pid, all processes of that session have ended, and the id can only mean another session.
fn has_session(main: &Main, candidates: &[Candidate]) -> bool {
    let reused =
        |one: &Candidate| one.process.who.pid == main.who.pid && one.process.who != main.who;
    main.leads && !candidates.iter().any(reused)
}
