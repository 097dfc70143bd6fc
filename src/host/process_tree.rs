//! Runs a program that is ended, with everything that it has started, if it takes too long.

use std::{
    collections::BTreeSet,
    io,
    process::{Command, ExitStatus},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::processes::Processes;

/// Runs a program to its end. None if it did not end in time. Then all its descendants were killed, also those with their
/// own session, so that it cleans up after them. If it does not end then, it was killed as well.
///
/// # Errors
/// It cannot be started.
pub fn run_within(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let root = child.id();
    let (sender, ended) = channel();
    thread::spawn(move || sender.send(child.wait()));
    if let Ok(status) = ended.recv_timeout(limit) {
        return status.map(Some);
    }
    kill_descendants(root);
    if ended.recv_timeout(CLEANUP_LIMIT).is_err() {
        send(root, Signal::SIGKILL);
        // A process that waits for a dead disk does not end.
        let _ = ended.recv_timeout(CLEANUP_LIMIT);
    }
    Ok(None)
}

/// Stops all processes before it kills the first one, because the children of a killed process get another parent.
fn kill_descendants(root: u32) {
    let (mut found, mut new) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let all = Processes::new("/proc").all().unwrap_or_default();
        let is_child = |of: u32| of == root || found.contains(&of);
        let children = all.iter().filter(|process| is_child(process.parent));
        new.extend(children.map(|it| it.who.pid).filter(|pid| !found.contains(pid)));
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|pid| send(*pid, Signal::SIGSTOP));
        found.append(&mut new);
    }
    found.iter().for_each(|pid| send(*pid, Signal::SIGKILL));
}

fn send(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        // The process may have ended.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// How long the program may take to clean up.
const CLEANUP_LIMIT: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 5000 });

#[cfg(test)]
mod tests {
    use std::{fs, time::Instant};

    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_program_ends_by_itself_or_is_ended() {
        let ended = run_within(&mut shell("exit 3"), Duration::from_secs(60)).unwrap();
        assert_eq!(ended.and_then(|status| status.code()), Some(3));
        let begun = Instant::now();
        for script in ["exec sleep 100", "sleep 100; exit 3"] {
            let ended = run_within(&mut shell(script), Duration::from_millis(50)).unwrap();
            assert_eq!(ended, None, "{script}");
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
        run_within(&mut Command::new("/no/such/program"), Duration::ZERO).unwrap_err();
    }

    #[test]
    fn descendants_with_their_own_session_are_killed() {
        let place = tempfile::tempdir().unwrap();
        let list = place.path().join("pids");
        let own = format!("echo $$ >>{}; sleep 100", list.display());
        let mut child =
            shell(&format!("setsid sh -c '{own} & wait' & {own} & wait")).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let wait_for = |is_done: &dyn Fn(&[u32]) -> bool| loop {
            let pids = fs::read_to_string(&list).unwrap_or_default();
            let pids: Vec<u32> = pids.lines().map(|pid| pid.parse().unwrap()).collect();
            if is_done(&pids) {
                break;
            }
            assert!(Instant::now() < until, "{pids:?}");
            thread::sleep(Duration::from_millis(5));
        };
        wait_for(&|pids| pids.len() == 2);
        kill_descendants(child.id());
        child.wait().unwrap();
        let is_alive = |pid: u32| Processes::new("/proc").get(pid).is_some_and(|it| it.is_alive);
        wait_for(&|pids| !pids.iter().any(|pid| is_alive(*pid)));
    }
}
