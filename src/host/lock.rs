//! A lock for one process, which ends with the process. The lock file has the pid and the socket of
//! the holder.

use std::{
    fmt,
    fs::{File, Metadata, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use nix::{libc, unistd::geteuid};
use thiserror::Error;

use super::{error::HostError, file};

/// A held lock; dropping it frees it. The file stays: without it two processes could lock two files
/// of one name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// The lock could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    #[error("{} is locked by {holder}", path.display())]
    Held { path: PathBuf, holder: Holder },
    /// The file cannot be made or locked.
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
    /// Takes the lock at `path`, making its file when it is missing, for a process that serves on
    /// `socket`. Does not wait.
    ///
    /// # Errors
    /// Another process has it, or the file cannot be written.
    pub fn take(path: &Path, socket: &Path) -> Result<Self, LockError> {
        let mut file = options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|e| HostError::new("open", path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held { path: path.to_owned(), holder: Holder::read(file) });
            }
            Err(TryLockError::Error(e)) => return Err(HostError::new("lock", path, e).into()),
        }
        let me = Holder { pid: Some(process::id()), socket: Some(socket.to_owned()) };
        // Only for messages of other processes; the lock holds without it.
        let _ = file.set_len(0).and_then(|()| file.write_all(format!("{me}\n").as_bytes()));
        Ok(Self { file })
    }

    /// Whether its file is still the one at `path`: if it was removed, another process can lock a new
    /// one.
    pub fn is_at(&self, path: &Path) -> bool {
        let same =
            |one: Metadata, other: Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
        let (held, found) = (self.file.metadata(), path.symlink_metadata());
        held.and_then(|held| found.map(|found| same(held, found))).unwrap_or_default()
    }

    /// The holder of the lock at `path`; none without such a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn holder(path: &Path) -> Result<Option<Holder>, HostError> {
        let file = match options().open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(HostError::new("open", path, e)),
        };
        // Shared and short: another process that wants the lock at this moment retries.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Holder::read(file))),
            Err(TryLockError::Error(e)) => Err(HostError::new("lock", path, e)),
        }
    }
}

/// Creates the directory for locks and its parents. An existing one must be writable by root and us
/// only: other users could take the lock.
///
/// # Errors
/// It cannot be made, or others can write to it.
pub fn ensure_directory(path: &Path) -> Result<(), HostError> {
    file::ensure_directory(path, DIRECTORY_MODE)?;
    let refused = |reason: io::Error| HostError::new("use the lock directory", path, reason);
    let found = path.symlink_metadata().map_err(refused)?;
    let owner = found.uid();
    if found.is_dir() && [0, geteuid().as_raw()].contains(&owner) && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let reason =
        format!("it belongs to user {owner}, others can write to it, or it is a link: remove it");
    Err(refused(io::Error::new(io::ErrorKind::PermissionDenied, reason)))
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

/// A user who can open the file could lock it; its directory may be listed.
const DIRECTORY_MODE: u32 = 0o755;
/// More than a process id and the longest path of a socket need.
const LONGEST_TEXT: u64 = 256;

#[cfg(test)]
mod tests;
