//! Runs a program with a time limit.

use std::{
    collections::BTreeMap,
    io,
    process::{Child, Command, ExitStatus},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    pidfd::{ProcessHandle, ProcessSignal},
    processes::{Process, Processes},
};

/// Runs a program to its end, and returns its exit status. If the program does not end in time, first kills its
/// descendants, even in other sessions, so that the program can clean up, and kills the program if it does not end
/// then. Misses descendants that an outside process has adopted. Returns None if the program did not end in time.
///
/// # Errors
/// The program cannot be started, or it did not end in time and killing its descendants failed.
pub fn run_within(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    if let Some(status) = wait(&mut child, limit)? {
        return Ok(Some(status));
    }
    let killed = kill_descendants(child.id(), &Processes::new("/proc"));
    if wait(&mut child, CLEANUP_LIMIT)?.is_none() {
        child.kill()?;
        // A process that waits for a dead disk does not end.
        wait(&mut child, CLEANUP_LIMIT)?;
    }
    let unkillable = |error| {
        format!("the program takes too long, and not all its descendants can be killed: {error}")
    };
    killed.map(|()| None).map_err(|error| io::Error::other(unkillable(error)))
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => sleep(PAUSE),
            ended => return Ok(ended),
        }
    }
}

fn kill_descendants(root: u32, processes: &Processes) -> io::Result<()> {
    let mut found = BTreeMap::new();
    let stopped = stop_descendants(root, processes, &mut found);
    found.values().map(|held| held.signal(ProcessSignal::Kill)).fold(stopped, Result::and)
}

/// Suspends the descendants before any is killed, because children of a killed process would no longer be found.
fn stop_descendants(
    root: u32,
    processes: &Processes,
    found: &mut BTreeMap<u32, ProcessHandle>,
) -> io::Result<()> {
    let until = Instant::now() + CLEANUP_LIMIT;
    loop {
        let all = match processes.all() {
            // The process table may be unreadable for a moment, because memory or descriptors are short.
            Err(_) if Instant::now() < until => {
                sleep(PAUSE);
                continue;
            }
            listed => listed.map_err(io::Error::other)?,
        };
        // Nobody has waited for the root process yet, so no other process can have its pid.
        let is_parent =
            |pid: u32| pid == root || found.get(&pid).is_some_and(ProcessHandle::is_alive);
        let is_new = |it: &&Process| is_parent(it.parent) && !found.contains_key(&it.who.pid);
        let new: Vec<_> = all.iter().filter(is_new).map(|process| process.who).collect();
        if new.is_empty() {
            return Ok(());
        }
        for who in new {
            if let Some(held) = ProcessHandle::take(processes, who)? {
                held.signal(ProcessSignal::Stop)?;
                found.insert(who.pid, held);
            }
        }
    }
}

/// How long the program may take to clean up, or to end when killed, and how long the process table may be unreadable.
const CLEANUP_LIMIT: Duration = Duration::from_millis(if cfg!(test) { 1000 } else { 5000 });
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, thread};

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
            sleep(PAUSE);
        };
        wait_for(&|pids| pids.len() == 2);
        // In this test, the process table cannot be read at first.
        let table = place.path().join("proc");
        let later = table.clone();
        let appears = thread::spawn(move || {
            sleep(PAUSE * 4);
            symlink("/proc", later).unwrap();
        });
        kill_descendants(child.id(), &Processes::new(table)).unwrap();
        appears.join().unwrap();
        child.wait().unwrap();
        let is_alive = |pid: u32| Processes::new("/proc").get(pid).is_some_and(|it| it.is_alive);
        wait_for(&|pids| !pids.iter().any(|pid| is_alive(*pid)));
        kill_descendants(child.id(), &Processes::new("/no/such/table")).unwrap_err();
    }
}
