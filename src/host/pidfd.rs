//! A handle that always means the same process, even if the pid is reused.
//!
//! A pid with its start time identifies one process. After opening a pidfd, dockbridge checks the start time,
//! so a signal or a wait reaches the process with that start time, or none. Kernels before 5.3 have no `pidfd_open`:
//! on these, dockbridge checks the start time right before each signal, and polls to wait.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};
use tokio::io::Interest;

use super::{
    processes::{Identity, Processes},
    readiness::register,
};

/// A handle of one process, which may have ended.
#[derive(Debug)]
pub struct ProcessHandle {
    who: Identity,
    processes: Processes,
    descriptor: Option<OwnedFd>,
}

/// A signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGHUP: the terminal was closed, or dockerd must read its configuration again.
    HangUp,
    Kill,
    /// SIGSTOP, which no process can ignore.
    Stop,
}

impl ProcessHandle {
    /// Opens a handle of a process, which may be a zombie. None if the process no longer exists. Fails if no file
    /// descriptor is free.
    pub fn take(processes: &Processes, who: Identity) -> io::Result<Option<Self>> {
        let descriptor = match pid(who.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Ok(descriptor) => Some(descriptor),
            Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => return Err(error.into()),
        };
        let held = Self { who, processes: processes.clone(), descriptor };
        Ok(held.is_same().then_some(held))
    }

    /// Sends a signal to the process. Also succeeds if the process has ended. Fails if access is denied.
    pub fn signal(&self, message: ProcessSignal) -> io::Result<()> {
        let signal = match message {
            ProcessSignal::HangUp => Signal::HUP,
            ProcessSignal::Kill => Signal::KILL,
            ProcessSignal::Stop => Signal::STOP,
        };
        let sent = match &self.descriptor {
            Some(descriptor) => pidfd_send_signal(descriptor, signal),
            None if self.is_same() => pid(self.who.pid).and_then(|pid| kill_process(pid, signal)),
            None => Ok(()),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Resolves when the process has ended, even if it is a zombie. Must be called inside a tokio runtime.
    pub async fn ended(&self) {
        let copy = self.descriptor.as_ref().and_then(|descriptor| descriptor.try_clone().ok());
        if let Some(copy) = copy
            && let Ok(copy) = register(copy, Interest::READABLE)
            && copy.readable().await.is_ok()
        {
            return;
        }
        while self.is_alive() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether the process has not ended yet.
    pub fn is_alive(&self) -> bool {
        self.processes.get(self.who.pid).is_some_and(|now| now.who == self.who && now.is_alive)
    }

    fn is_same(&self) -> bool {
        self.processes.get(self.who.pid).is_some_and(|now| now.who == self.who)
    }
}

/// Fails only if the number is not a pid, because the kernel's pids are at most 2^22.
fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// How often dockbridge checks without a pidfd whether a process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
