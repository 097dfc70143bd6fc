//! Errors of system calls, with the path on which the call failed.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::error::{Kind, WithKind};

/// The error of a system call on a path.
#[derive(Debug, Error)]
#[error("cannot {action} {}", path.display())]
pub struct HostError {
    /// The failed action, as the words between "cannot" and the path, for example "open" or "rename to".
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl HostError {
    /// Makes an error from an I/O error, the action and the path.
    pub fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self { action, path: path.to_owned(), source: source.into() }
    }

    /// Whether the call failed because a file or directory does not exist (`ENOENT`).
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Turns the error of a system call into a [`HostError`].
pub trait OrCannot<T> {
    fn or_cannot(self, action: &'static str, path: &Path) -> Result<T, HostError>;
}

impl<T, E: Into<io::Error>> OrCannot<T> for Result<T, E> {
    fn or_cannot(self, action: &'static str, path: &Path) -> Result<T, HostError> {
        self.map_err(|error| HostError::new(action, path, error))
    }
}

impl WithKind for HostError {
    /// Of all I/O errors, only a full disk or quota has its own kind, because a caller can free disk space.
    fn kind(&self) -> Kind {
        match self.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::ResourceExhausted,
            _ => Kind::Internal,
        }
    }
}
