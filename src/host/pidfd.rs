//! Holding on to one process: a pid can change hands at any time, what is held here cannot.
//!
//! A pid alone names whoever has it at the moment. With its start time it names one process for
//! good; a pidfd, opened and then held against that start time, makes signals and waits meet that
//! process or nobody. Kernels before 5.3 have none: there the start time is looked at right
//! before each signal, and waiting is looking again.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    libc,
    sys::signal::{Signal, kill},
    unistd::Pid,
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
        let descriptor = match open(who.pid) {
            Ok(descriptor) => Some(Watched::new(descriptor, Interest::READABLE)?),
            Err(Errno::ESRCH | Errno::EINVAL) => return Ok(None),
            Err(Errno::ENOSYS | Errno::EPERM) => None,
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
    pub fn tell(&self, message: Message) -> io::Result<()> {
        let signal = match message {
            Message::HangUp => Signal::SIGHUP,
            Message::Kill => Signal::SIGKILL,
        };
        let sent = match &self.descriptor {
            Some(descriptor) => send(descriptor.get(), signal),
            None if self.is_same() => kill(pid(self.who.pid), signal),
            None => Ok(()),
        };
        match sent {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
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

#[allow(unsafe_code, reason = "no safe door to this system call")]
fn open(pid: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes two numbers and touches no memory of ours.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    let descriptor = RawFd::try_from(Errno::result(answer)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it, for us alone, closed on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[allow(unsafe_code, reason = "no safe door to this system call")]
fn send(to: &OwnedFd, signal: Signal) -> Result<(), Errno> {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for the length of the call; a null pointer asks for the
    // information `kill` would give.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            to.as_raw_fd(),
            signal as libc::c_int,
            nothing,
            0,
        )
    };
    Errno::result(answer).map(drop)
}

/// Numbers from the process table fit: the kernel's limit is far below.
fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().unwrap_or(libc::pid_t::MAX))
}

/// How often a process is looked at where it cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
