//! Finds the main process of an exec on the host, and the processes that belong to it.

use std::{
    io,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use super::{
    error::ExecError,
    process_tree::{Candidate, Main, members, session},
};
use crate::{
    host::{
        cgroup::Cgroups,
        pidfd::{ProcessHandle, ProcessSignal},
        processes::{Identity, Process, Processes},
    },
    model::record::ContainerRecord,
};

/// The state of an exec's main process.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    /// The process runs, and a pidfd holds it.
    Found(Arc<FoundProcess>),
    /// Ended before it could be found.
    Ended,
    /// The engine's pids mean nothing here, or its containers' cgroups are not named as usual.
    Hidden,
}

/// A main process that was found.
#[derive(Debug)]
pub(super) struct FoundProcess {
    pub(super) main: Main,
    pub(super) held: ProcessHandle,
}

/// Finds the processes of one exec in the process table.
#[derive(Clone, Debug)]
pub(super) struct ProcessFinder {
    pub(super) processes: Processes,
    /// Lists the processes of a container without reading the whole process table.
    pub(super) groups: Cgroups,
    /// Full id of the container. Processes outside it are never signalled.
    pub(super) container: String,
    /// The container's own main process, if it is known.
    pub(super) init: Option<u32>,
    /// `NAME=value` from the environment of the exec, if it has one.
    pub(super) marker: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Signalled {
    /// How many processes belonged to the exec and were signalled.
    pub(super) signalled: usize,
    /// How many processes may be in the middle of an execve, so that their marker cannot be read.
    pub(super) unclear: usize,
}

impl ProcessFinder {
    /// The finder for a process that is started in this container.
    pub(super) fn of(container: &ContainerRecord, marker: Option<String>) -> Self {
        Self {
            processes: Processes::new(PROCESS_TABLE),
            groups: GROUPS.clone(),
            container: container.id.as_str().to_owned(),
            init: container.process.pid(),
            marker,
        }
    }

    /// The error for a process that does not end.
    pub(super) fn unkillable(&self) -> ExecError {
        ExecError::Unkillable { container: self.container.clone(), waited: KILL_TIMEOUT }
    }

    /// Finds the process with the engine's `pid`.
    ///
    /// # Errors
    /// The process table cannot be read, for example because too many files are open.
    pub(super) fn find(&self, pid: u32) -> io::Result<Lookup> {
        let Some(process) = self.processes.get(pid) else { return self.absent() };
        let inside = self.processes.is_in_cgroup(pid, &self.container);
        let pipes = self.own_pipes(process.who);
        match ProcessHandle::take(&self.processes, process.who)? {
            // The same process existed before and after the reads above, so they are about it.
            Some(held) if inside => {
                let (who, leads) = (process.who, process.session == pid);
                Ok(Lookup::Found(Arc::new(FoundProcess { main: Main { who, leads, pipes }, held })))
            }
            _ => self.absent(),
        }
    }

    /// The pipes to which `who` writes, except those that other processes had before. A command may write
    /// to its container's log (`>/proc/1/fd/1`), and the other processes that do this belong to the
    /// container.
    pub(super) fn own_pipes(&self, who: Identity) -> Vec<String> {
        let mut pipes = self.processes.output_pipes(who.pid);
        if pipes.is_empty() {
            return pipes;
        }
        // Without a list of the other processes, it is unknown which pipes are its own.
        let Ok(all) = self.members(Some(who.pid)) else { return Vec::new() };
        for elder in all.iter().map(|one| one.who).filter(|one| one.started < who.started) {
            if self.processes.is_in_cgroup(elder.pid, &self.container) {
                let theirs = self.processes.output_pipes(elder.pid);
                pipes.retain(|pipe| !theirs.contains(pipe));
            }
        }
        pipes
    }

    /// No process of the exec has the pid: it ended just now, if this table shows the container at all.
    fn absent(&self) -> io::Result<Lookup> {
        let all = self.members(None)?;
        let is_ours = |one: &Process| self.processes.is_in_cgroup(one.who.pid, &self.container);
        Ok(if all.iter().any(is_ours) { Lookup::Ended } else { Lookup::Hidden })
    }

    /// Signals every process that the message concerns. Ended ones are not counted. If one cannot be
    /// signalled, the others are signalled nevertheless.
    pub(super) fn signal(
        &self,
        main: Option<&Main>,
        message: ProcessSignal,
    ) -> io::Result<Signalled> {
        let all = self.members(main.map(|main| main.who.pid))?;
        let since = main.map_or(0, |main| main.who.started);
        let recent = all.into_iter().filter(|one| one.is_alive && one.who.started >= since);
        let (mut candidates, mut unclear) = (Vec::new(), 0);
        for process in recent {
            candidates.extend(self.candidate(process, main, &mut unclear));
        }
        let found = match message {
            ProcessSignal::Kill | ProcessSignal::Stop => members(main, &candidates),
            ProcessSignal::HangUp => session(main, &candidates),
        };
        let mut outcome = Ok(());
        for who in &found {
            outcome = outcome.and(self.signal_one(*who, message));
        }
        outcome.map(|()| Signalled { signalled: found.len(), unclear })
    }

    /// The processes that may be in the container: those of its cgroup, which is found through the main
    /// process of the container or of the exec. If the cgroup cannot be read, all processes of the machine.
    pub(super) fn members(&self, main: Option<u32>) -> io::Result<Vec<Process>> {
        let listed = |pid| self.groups.processes(pid, &self.container).ok();
        match self.init.into_iter().chain(main).find_map(listed) {
            Some(pids) => Ok(pids.into_iter().filter_map(|pid| self.processes.get(pid)).collect()),
            None => self.processes.all().map_err(|error| error.source),
        }
    }

    /// Whether the main process runs, according to the process table: it has the marker and the same parent
    /// as the container's own main process, containerd's shim. Processes that a command left behind have
    /// other parents. Also true if the container cannot be seen.
    pub(super) fn main_runs(&self) -> bool {
        let Some(init) = self.init.and_then(|pid| self.processes.get(pid)) else { return true };
        let Ok(all) = self.members(None) else { return true };
        all.into_iter().filter(|one| one.who != init.who && one.parent == init.parent).any(|one| {
            one.is_alive && self.candidate(one, None, &mut 0).is_some_and(|found| found.marked)
        })
    }

    fn candidate(
        &self,
        process: Process,
        main: Option<&Main>,
        unclear: &mut usize,
    ) -> Option<Candidate> {
        let pid = process.who.pid;
        if !self.processes.is_in_cgroup(pid, &self.container) {
            return None;
        }
        let held = self.processes.output_pipes(pid);
        let holds_pipe = main.is_some_and(|main| held.iter().any(|one| main.pipes.contains(one)));
        let marked = match self.marker.as_deref().and_then(|marker| marker.split_once('=')) {
            Some((name, own)) => {
                self.processes.variable(pid, name).map(|it| it.as_deref() == Some(own))
            }
            None => Some(false),
        };
        *unclear += usize::from(marked.is_none());
        Some(Candidate { process, holds_pipe, marked: marked == Some(true) })
    }

    /// The cgroup was read before the process was held, and the pid may have been reused since. So the
    /// cgroup is checked again while the process is held.
    fn signal_one(&self, who: Identity, message: ProcessSignal) -> io::Result<()> {
        match ProcessHandle::take(&self.processes, who)? {
            Some(held) if self.processes.is_in_cgroup(who.pid, &self.container) => {
                held.signal(message)
            }
            _ => Ok(()),
        }
    }
}

const PROCESS_TABLE: &str = "/proc";

/// Cgroups of this machine, read at each scan; only the mount points are cached.
static GROUPS: LazyLock<Cgroups> = LazyLock::new(|| Cgroups::from_proc(Path::new(PROCESS_TABLE)));

/// How long a process may take to disappear after SIGKILL.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(10);
