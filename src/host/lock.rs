//! A lock for one process, which ends with the process. The lock file contains the pid and the socket of
//! the holder.

use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
};

use nix::libc;
use thiserror::Error;

use super::{
    error::{HostError, OrCannot as _},
    file,
};

/// A held lock. Dropping it frees the lock. The file stays, because otherwise two processes could lock two
/// files with the same name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A close alone does not free it while a child that is just being started has a copy of the file.
        let _ = self.file.unlock();
    }
}

/// The lock could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    #[error("{} is locked by {holder}", path.display())]
    Held { path: PathBuf, holder: Holder },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The holder of a lock, from its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<u32>,
    pub socket: Option<PathBuf>,
}

impl Lock {
    /// Takes the lock at `path` for a process that serves on `socket`. Creates the file if it does not
    /// exist. Does not wait.
    ///
    /// # Errors
    /// Another process has the lock, or the file cannot be written.
    pub fn take(path: &Path, socket: &Path) -> Result<Self, LockError> {
        let mut file = options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .or_cannot("open", path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: path.to_owned(), holder: Holder::read(file) });
            }
            Err(TryLockError::Error(e)) => return Err(HostError::new("lock", path, e).into()),
        }
        let me = Holder { pid: Some(process::id()), socket: Some(socket.to_owned()) };
        // Only for messages of other processes. The lock is valid without it.
        let _ = file.set_len(0).and_then(|()| file.write_all(format!("{me}\n").as_bytes()));
        Ok(Self { file })
    }

    /// The holder of the lock at `path`. None if there is no such file.
    pub fn holder(path: &Path) -> Result<Option<Holder>, HostError> {
        let opened = file::if_there(options().open(path)).or_cannot("open", path)?;
        let Some(file) = opened else { return Ok(None) };
        // This lock is shared and short. Another process that wants the lock at this moment retries.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Holder::read(file))),
            Err(TryLockError::Error(e)) => Err(HostError::new("lock", path, e)),
        }
    }
}

impl Holder {
    fn read(file: File) -> Self {
        let mut text = String::new();
        match file.take(LONGEST_TEXT).read_to_string(&mut text) {
            Ok(_) => Self::parse(&text),
            Err(_) => Self::default(),
        }
    }

    pub(super) fn parse(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let Some(rest) = line.strip_prefix("process ") else { return Self::default() };
        let (pid, socket) = match rest.split_once(" serving ") {
            Some((pid, socket)) => (pid, Some(socket)),
            None => (rest, None),
        };
        let plain = |text: &&str| text.starts_with('/') && !text.contains(char::is_control);
        Self { pid: pid.parse().ok(), socket: socket.filter(plain).map(PathBuf::from) }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("another process")?,
        }
        match &self.socket {
            Some(socket) => write!(f, " serving {}", socket.display()),
            None => Ok(()),
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// More than a process id and the longest path of a socket need.
const LONGEST_TEXT: u64 = 256;

#[cfg(test)]
mod tests;
