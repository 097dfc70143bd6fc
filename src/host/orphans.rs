//! Ends programs that an earlier dockbridge process has left running, because they may change the same pods as the
//! new dockbridge process. A program has [`GRACE`] to end by itself before dockbridge kills it, because a network
//! plugin cannot always undo an ADD that was killed half-way.
//!
//! Each program that [`super::process::run`] starts leads a process group, and has the identity of its dockbridge in
//! its environment. Daemons that a program has left are not killed if the leader of their group has ended or they have
//! their own session. A parent-death signal could not replace this clean-up: it would reach only the program and not
//! the programs that it runs, such as the plugins that Multus delegates to.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    sync::LazyLock,
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tracing::{info, warn};

use super::processes::{Identity, Process, Processes};

/// The environment variable that names the dockbridge process that started a program.
pub(super) const VARIABLE: &str = "DOCKBRIDGE_PARENT";

/// The value of [`VARIABLE`] for programs of this dockbridge process.
pub(super) static OWN: LazyLock<String> = LazyLock::new(|| {
    let own = Processes::new(PROCESS_TABLE).get(std::process::id());
    own.map_or_else(String::new, |own| mark(own.who))
});

/// Waits for the programs of ended dockbridge processes, and kills those that have not ended in time. Must be called
/// after the previous dockbridge has ended, and before this process runs CNI plugins.
pub async fn end_all() {
    let _ = tokio::task::spawn_blocking(|| end(&Processes::new(PROCESS_TABLE), GRACE)).await;
}

fn end(processes: &Processes, wait: Duration) {
    let killed_from = Instant::now() + wait;
    let until = killed_from + TIME_LIMIT;
    let mut killed = Vec::new();
    // Looks several times if an environment is unreadable, as that of a program that is just starting.
    let mut looks = 0;
    loop {
        looks += 1;
        let (orphans, unclear) = find(processes);
        if !orphans.is_empty() && Instant::now() < killed_from {
            sleep(PAUSE);
            continue;
        }
        let found = orphans.into_iter().filter(|who| !killed.contains(who));
        for orphan in found.collect::<Vec<_>>() {
            let program = processes.command_line(orphan.pid);
            info!(
                pid = orphan.pid,
                ?program,
                "killing a program that an earlier dockbridge process left running"
            );
            if let Ok(group) = i32::try_from(orphan.pid) {
                // The program may have ended a moment ago.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            killed.push(orphan);
        }
        let all = processes.all().unwrap_or_default().into_iter().filter(|one| one.is_alive);
        let left = all.filter(|one| killed.iter().any(|group| group.pid == one.group));
        let pids: Vec<u32> = left.map(|one| one.who.pid).collect();
        if pids.is_empty() && (unclear == 0 || looks >= LEAST_LOOKS) {
            return;
        }
        if Instant::now() > until {
            warn!(
                ?pids,
                "programs that an earlier dockbridge process left running cannot be killed; continuing"
            );
            return;
        }
        sleep(PAUSE);
    }
}

fn find(processes: &Processes) -> (Vec<Identity>, usize) {
    // A pod chooses the environment of its processes, so only processes of the host count.
    let leads = |one: &Process| {
        one.is_alive
            && one.group == one.who.pid
            && one.session != one.group
            && processes.is_of_host(one.who.pid)
    };
    let mut orphans = Vec::new();
    let mut unclear = 0;
    for leader in processes.all().unwrap_or_default().into_iter().filter(leads) {
        match processes.variable(leader.who.pid, VARIABLE) {
            Some(Some(value)) if is_of_ended(processes, &value) => orphans.push(leader.who),
            Some(_) => {}
            None => unclear += 1,
        }
    }
    (orphans, unclear)
}

/// Whether `value` identifies an ended process of dockbridge's pid namespace.
fn is_of_ended(processes: &Processes, value: &str) -> bool {
    let mut numbers = value.split(':').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (Some(namespace), Some(pid), Some(started)) = (next(), next(), next()) else {
        return false;
    };
    let Ok(pid) = u32::try_from(pid) else { return false };
    let runs =
        processes.get(pid).is_some_and(|one| one.who == Identity { pid, started } && one.is_alive);
    pid_namespace().is_ok_and(|ours| ours == namespace) && !runs
}

fn mark(who: Identity) -> String {
    let namespace = pid_namespace().unwrap_or_default();
    format!("{namespace}:{}:{}", who.pid, who.started)
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

const PROCESS_TABLE: &str = "/proc";
/// How long programs may take to end by themselves. The CNI plugin `bridge` takes less than a second.
const GRACE: Duration = Duration::from_secs(5);
/// How long dockbridge waits for killed programs to end. A program that waits for a dead disk does not end.
const TIME_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
const LEAST_LOOKS: u32 = 10;

#[cfg(test)]
mod tests;
