//! Finds the main process of an exec on the host, and the other processes that belong to the exec.

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

/// The result of a search for an exec's main process.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    Found(Arc<FoundProcess>),
    Ended,
    /// The process is invisible, for example because the engine is in another pid namespace.
    Hidden,
}

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
    /// The full id of the container. Processes outside of the container are never signalled.
    pub(super) container: String,
    pub(super) init: Option<u32>,
    /// The variable `NAME=value` in the environment of the exec's processes that marks them, if there is one.
    pub(super) marker: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Signalled {
    /// How many processes dockbridge found and tried to signal. Some may have ended just before the signal.
    pub(super) signalled: usize,
    /// How many of the container's processes had an unreadable or empty environment when dockbridge looked for the
    /// marker, for example in the middle of an execve.
    pub(super) unclear: usize,
}

impl ProcessFinder {
    pub(super) fn of(container: &ContainerRecord, marker: Option<String>) -> Self {
        Self {
            processes: Processes::new(PROCESS_TABLE),
            groups: GROUPS.clone(),
            container: container.id.as_str().to_owned(),
            init: container.process.pid(),
            marker,
        }
    }

    /// The error if a process does not end, or the engine does not report its end.
    pub(super) fn unkillable(&self) -> ExecError {
        ExecError::Unkillable { container: self.container.clone(), waited: KILL_TIMEOUT }
    }

    /// Finds the main process of the exec, whose `pid` the engine has reported.
    ///
    /// # Errors
    /// The process table cannot be read, or a pidfd cannot be opened, for example because too many files are open.
    pub(super) fn find(&self, pid: u32) -> io::Result<Lookup> {
        let Some(process) = self.processes.get(pid) else { return self.absent() };
        let inside = self.processes.is_in_cgroup(pid, &self.container);
        let pipes = self.own_pipes(process.who);
        match ProcessHandle::take(&self.processes, process.who)? {
            // The process existed before and after the reads above, so they are about this process.
            Some(held) if inside => {
                let (who, leads) = (process.who, process.session == pid);
                Ok(Lookup::Found(Arc::new(FoundProcess { main: Main { who, leads, pipes }, held })))
            }
            _ => self.absent(),
        }
    }

    /// The pipes of the standard output and error of `who`, without pipes that are also the output of an older process
    /// of the container: a command may write to its container's log (`>/proc/1/fd/1`), whose pipe belongs to the
    /// container and not to the exec.
    pub(super) fn own_pipes(&self, who: Identity) -> Vec<String> {
        let mut pipes = self.processes.output_pipes(who.pid);
        if pipes.is_empty() {
            return pipes;
        }
        let Ok(all) = self.members(Some(who.pid)) else { return Vec::new() };
        for older in all.iter().map(|one| one.who).filter(|one| one.started < who.started) {
            if self.processes.is_in_cgroup(older.pid, &self.container) {
                let theirs = self.processes.output_pipes(older.pid);
                pipes.retain(|pipe| !theirs.contains(pipe));
            }
        }
        pipes
    }

    /// The result if no process of the container has the pid that the engine has reported. If the process table
    /// shows other processes of the container, the exec's process has ended; otherwise it counts as hidden.
    fn absent(&self) -> io::Result<Lookup> {
        let all = self.members(None)?;
        let is_ours = |one: &Process| self.processes.is_in_cgroup(one.who.pid, &self.container);
        Ok(if all.iter().any(is_ours) { Lookup::Ended } else { Lookup::Hidden })
    }

    /// Signals every process that has to get this signal and has not ended. If signals fail, continues and then
    /// returns the first error.
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
        let signalled = found.iter().map(|who| self.signal_one(*who, message));
        signalled.fold(Ok(()), Result::and)?;
        Ok(Signalled { signalled: found.len(), unclear })
    }

    /// The processes that may be in the container: the processes of its cgroup, which is found through the main process
    /// of the container or of the exec. If the cgroup cannot be read, returns all processes that dockbridge sees.
    pub(super) fn members(&self, main: Option<u32>) -> io::Result<Vec<Process>> {
        let listed = |pid| self.groups.processes(pid, &self.container).ok();
        match self.init.into_iter().chain(main).find_map(listed) {
            Some(pids) => Ok(pids.into_iter().filter_map(|pid| self.processes.get(pid)).collect()),
            None => self.processes.all().map_err(|error| error.source),
        }
    }

    /// Whether the exec's main process runs: a process with the marker and the same parent (containerd's shim) as the
    /// container's main process. Also true if the container's main process is hidden, or processes cannot be listed.
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

    /// Before the signal, checks the start time and the cgroup again, because the pid may have been reused.
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

/// Each scan reads the cgroups again; only the mount table is cached.
static GROUPS: LazyLock<Cgroups> = LazyLock::new(|| Cgroups::from_proc(Path::new(PROCESS_TABLE)));

/// How long an exec's processes may take to end after SIGKILL, and how long the engine may then take to report the end.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(10);
