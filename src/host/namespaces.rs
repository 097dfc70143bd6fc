//! Creates a user namespace, alone or with a network namespace that it owns.
//!
//! Only a process with `CAP_SYS_ADMIN` in the user namespace that owns a network namespace can mount the sysfs of that
//! network namespace. So one `unshare` of one child process creates both namespaces: the kernel creates the user
//! namespace first, and so the user namespace owns the network namespace.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::OFlag,
    libc,
    sched::{CloneFlags, unshare},
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, kill},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork, getpid, getppid, pause, pipe2, write},
};

use super::{
    error::{HostError, OrCannot as _},
    netns,
};

/// The id maps of a new user namespace, in the format of `/proc/<pid>/uid_map`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMaps {
    pub uids: String,
    pub gids: String,
}

/// A child process with new namespaces. If nobody pins or opens the namespaces, they end with the child.
#[derive(Debug)]
pub struct NamespaceHolder {
    pid: Pid,
}

impl NamespaceHolder {
    /// Creates a user namespace with `ids`, and if `with_network` a network namespace. Blocks for a moment.
    ///
    /// # Errors
    /// Access is denied, a mapping is invalid, or the kernel's limit of namespaces is reached.
    pub fn make(ids: &IdMaps, with_network: bool) -> Result<Self, HostError> {
        let mut flags = CloneFlags::CLONE_NEWUSER;
        flags.set(CloneFlags::CLONE_NEWNET, with_network);
        let holder = hold(flags).or_cannot("make", Path::new(NAMESPACES))?;
        for (file, map) in [("uid_map", &ids.uids), ("gid_map", &ids.gids)] {
            let path = holder.path(file);
            fs::write(&path, map).or_cannot("write", &path)?;
        }
        Ok(holder)
    }

    /// Opens the child's user namespace. Fails if no file descriptor is left.
    pub fn open_user(&self) -> Result<OwnedFd, HostError> {
        let path = self.path("ns/user");
        Ok(File::open(&path).or_cannot("open", &path)?.into())
    }

    /// Pins the child's user namespace at the path `at`. Fails if mounting is not permitted.
    pub fn pin_user(&self, at: &Path) -> Result<(), HostError> {
        netns::unpin(at)?;
        netns::mount_pin(&self.path("ns/user"), at)
    }

    /// Pins the child's network namespace at the path `at`.
    pub fn pin_network(&self, at: &Path) -> Result<(), HostError> {
        netns::pin(self.pid.as_raw().cast_unsigned(), at)
    }

    fn path(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.pid))
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        // Nobody has waited for the child yet, so its pid cannot have been reused.
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// Starts a child in new namespaces. The child waits to be killed, and not for the end of a pipe, because
/// other children could keep the pipe open.
fn hold(flags: CloneFlags) -> io::Result<NamespaceHolder> {
    let (told, tell) = pipe2(OFlag::O_CLOEXEC)?;
    let parent = getpid();
    #[allow(unsafe_code, reason = "fork has no safe form; the child makes only system calls")]
    // SAFETY: until it ends, the child calls only async-signal-safe functions: `close_range`, `prctl`, `getppid`,
    // `unshare`, `write`, `pause` and `_exit`. The functions use the child's own copy of memory and descriptors.
    let forked = unsafe { fork() }?;
    match forked {
        ForkResult::Child => {
            close_others(&tell);
            let made = set_pdeathsig(Signal::SIGKILL).and_then(|()| unshare(flags));
            // If the parent died before `set_pdeathsig`, no signal would come, so the child ends itself.
            if getppid() != parent {
                end();
            }
            let made = made.err().map_or(0, |error| error as i32);
            if write(&tell, &made.to_ne_bytes()).is_ok() {
                pause();
            }
            end();
        }
        ForkResult::Parent { child } => {
            let holder = NamespaceHolder { pid: child };
            drop(tell);
            let mut errno = [0; 4];
            File::from(told).read_exact(&mut errno)?;
            match i32::from_ne_bytes(errno) {
                0 => Ok(holder),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

/// Closes the child's copies of dockbridge's locks and sockets. While the kernel creates the namespaces, the
/// child may outlive a killed dockbridge. If the child kept its copies of the locks, the next dockbridge could
/// not take the locks.
#[allow(unsafe_code, reason = "std has no form of this system call")]
fn close_others(kept: &OwnedFd) {
    let kept = kept.as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)] {
        // SAFETY: this closes only descriptors of the child, which does not use them any more. The call fails if
        // `first` is greater than `last`, and before Linux 5.9.
        let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

#[allow(unsafe_code, reason = "a forked child must not run the exit handlers of its parent")]
fn end() -> ! {
    // SAFETY: `_exit` only ends the child process.
    unsafe { libc::_exit(0) }
}

const NAMESPACES: &str = "/proc/self/ns";

#[cfg(test)]
mod tests;
