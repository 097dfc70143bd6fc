//! A lock that only one process can hold at a time. The kernel releases the lock when the process ends, but not before
//! a child that the process was just starting runs its program. The lock file has the holder's pid and socket.

use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
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

/// A held lock. Dropping the value releases the lock but does not remove the lock file: otherwise two
/// processes could lock two different files with the same name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that is just being started may have a copy of the descriptor, which would keep the lock.
        let _ = self.file.unlock();
    }
}

/// Why a lock could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    #[error("{} is locked by {holder}", path.display())]
    Held { path: PathBuf, holder: Holder },
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The process that holds a lock, as its lock file names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub pid: Option<u32>,
    pub socket: Option<PathBuf>,
}

impl Lock {
    /// Takes the lock at `path` for this process, which serves on `socket`. Does not wait. Creates a missing lock file.
    ///
    /// # Errors
    /// Another process has the lock, or the lock file cannot be opened or locked.
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
        // Other processes name the holder in their messages. The lock is valid without this text.
        let _ = file.set_len(0).and_then(|()| file.write_all(format!("{me}\n").as_bytes()));
        Ok(Self { file })
    }

    /// The holder of the lock at `path`. None if nobody has the lock or the file does not exist.
    pub fn holder(path: &Path) -> Result<Option<Holder>, HostError> {
        let opened = file::if_there(options().open(path)).or_cannot("open", path)?;
        let Some(file) = opened else { return Ok(None) };
        // This check takes a shared lock for a moment, so a concurrent `take` may fail. Callers of `take` retry.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Holder::read(file))),
            Err(TryLockError::Error(e)) => Err(HostError::new("lock", path, e)),
        }
    }
}

impl Holder {
    fn read(file: File) -> Self {
        let text = io::read_to_string(file.take(LONGEST_TEXT));
        text.map(|text| Self::parse(&text)).unwrap_or_default()
    }

    pub(super) fn parse(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let Some(rest) = line.strip_prefix("process ") else { return Self::default() };
        let (pid, socket) = rest.split_once(" serving ").unwrap_or((rest, ""));
        let plain = |text: &&str| text.starts_with('/') && !text.contains(char::is_control);
        Self { pid: pid.parse().ok(), socket: Some(socket).filter(plain).map(PathBuf::from) }
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

/// How many bytes of a lock file are read. A pid and the longest path of a socket need less.
const LONGEST_TEXT: u64 = 256;

#[cfg(test)]
mod tests;
