//! A handle of one process that remains correct if its pid is reused.
//!
//! A pid with its start time identifies one process. A pidfd is opened and then checked against the start
//! time, so signals and waits reach this process or none. Kernels before 5.3 have no pidfd. There the start
//! time is read right before each signal, and waiting is polling.

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

/// One process, running or ended, and never another process with the same pid.
#[derive(Debug)]
pub struct ProcessHandle {
    who: Identity,
    processes: Processes,
    descriptor: Option<OwnedFd>,
}

/// A signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGHUP: the terminal was closed.
    HangUp,
    Kill,
    /// SIGSTOP, which no process can ignore.
    Stop,
}

impl ProcessHandle {
    /// Opens a process. None if it has ended. Fails if no file descriptor is left.
    pub fn take(processes: &Processes, who: Identity) -> io::Result<Option<Self>> {
        let descriptor = match pid(who.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Ok(descriptor) => Some(descriptor),
            Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => return Err(error.into()),
        };
        let held = Self { who, processes: processes.clone(), descriptor };
        // Checked after opening, so that the pidfd is of this process.
        Ok(held.is_same().then_some(held))
    }

    /// Sends a signal. Also succeeds if the process has ended. Fails if access is denied.
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

    /// Resolves when the process has ended, even if its parent has not waited for it. Must be called inside a runtime.
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

    /// Whether it has not ended yet.
    pub fn is_alive(&self) -> bool {
        self.processes.get(self.who.pid).is_some_and(|now| now.who == self.who && now.is_alive)
    }

    fn is_same(&self) -> bool {
        self.processes.get(self.who.pid).is_some_and(|now| now.who == self.who)
    }
}

/// Numbers from the process table fit, because the kernel's limit is far lower.
fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// Interval of polling without a pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
