//! Holding on to one process: a pid can change hands at any time, what is held here cannot.
//!
//! A pid alone names whoever has it at the moment. With its start time it names one process for
//! good; a pidfd, opened and then held against that start time, makes signals and waits meet that
//! process or nobody. Kernels before 5.3 have none: there the start time is looked at right
//! before each signal, and waiting is looking again.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal},
};
use tokio::io::Interest;

use super::{
    processes::{Identity, Processes},
    readiness::Watched,
};

/// One process, alive or not, that is never mistaken for another.
#[derive(Debug)]
pub struct Held {
    who: Identity,
    processes: Processes,
    descriptor: Option<Watched<OwnedFd>>,
}

/// A signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// SIGHUP: the terminal has gone.
    HangUp,
    /// SIGKILL.
    Kill,
}

impl Held {
    /// Takes hold of a process; none when it has ended. To be called in a runtime.
    ///
    /// # Errors
    /// No descriptor is left for it.
    pub fn take(processes: &Processes, who: Identity) -> io::Result<Option<Self>> {
        let descriptor = match pid(who.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Ok(descriptor) => Some(Watched::new(descriptor, Interest::READABLE)?),
            Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => return Err(error.into()),
        };
        let held = Self { who, processes: processes.clone(), descriptor };
        // Looked at after opening: who is there now has been there since before.
        Ok(held.is_same().then_some(held))
    }

    /// Sends a signal; one that has ended is fine.
    ///
    /// # Errors
    /// Not permitted.
    pub fn signal(&self, message: Message) -> io::Result<()> {
        let signal = match message {
            Message::HangUp => Signal::HUP,
            Message::Kill => Signal::KILL,
        };
        let sent = match &self.descriptor {
            Some(descriptor) => pidfd_send_signal(descriptor.get(), signal),
            None if self.is_same() => pid(self.who.pid).and_then(|pid| kill_process(pid, signal)),
            None => Ok(()),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Resolves when it has ended, whether or not its parent has taken notice.
    pub async fn ended(&self) {
        if let Some(descriptor) = &self.descriptor
            && descriptor.readiness().readable().await.is_ok()
        {
            return;
        }
        while self.processes.one(self.who.pid).is_some_and(|now| now.who == self.who && now.lives) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn is_same(&self) -> bool {
        self.processes.one(self.who.pid).is_some_and(|now| now.who == self.who)
    }
}

/// Numbers from the process table fit: the kernel's limit is far below.
fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// How often a process is looked at where it cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
