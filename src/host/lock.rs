//! One process at a time: a lock that ends with its holder, however that ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
};

use nix::libc;
use thiserror::Error;

use super::error::HostError;

/// A held lock; dropping it frees it. The file stays: whoever removed it could let two processes
/// lock two files of one name.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The lock could not be taken.
#[derive(Debug, Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("{} is locked by {holder}", path.display())]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// What the holder wrote of itself.
        holder: String,
    },
    /// The file cannot be made or locked.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Lock {
    /// Takes the lock at `path`, making its file when it is missing. Does not wait.
    ///
    /// # Errors
    /// Somebody has it, or the file cannot be written.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let refused = |action| move |e| HostError::new(action, path, e);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .map_err(refused("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file);
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(e)) => return Err(HostError::new("lock", path, e).into()),
        }
        // Only for whoever meets the lock; without it the lock holds as well.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "process {}", process::id()));
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(LONGEST_NAME).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), text) if !text.is_empty() => text.escape_default().to_string(),
        _ => "another process".to_owned(),
    }
}

/// More than any process id needs.
const LONGEST_NAME: u64 = 64;

#[cfg(test)]
mod tests;
