//! Errors of system calls with the path.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::error::{Kind, WithKind};

/// A failed call on a path.
#[derive(Debug, Error)]
#[error("cannot {action} {}", path.display())]
pub struct HostError {
    /// The failed action, as a verb with its preposition: "open", "rename to".
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl HostError {
    /// Adds the action and the path to an I/O error.
    pub fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self { action, path: path.to_owned(), source: source.into() }
    }

    /// Whether the path, or a directory above it, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Makes the error of a system call a [`HostError`].
pub trait OrCannot<T> {
    /// Adds the action and the path to the error.
    fn or_cannot(self, action: &'static str, path: &Path) -> Result<T, HostError>;
}

impl<T, E: Into<io::Error>> OrCannot<T> for Result<T, E> {
    fn or_cannot(self, action: &'static str, path: &Path) -> Result<T, HostError> {
        self.map_err(|error| HostError::new(action, path, error))
    }
}

impl WithKind for HostError {
    /// A full disk is the only cause on which a caller can act.
    fn kind(&self) -> Kind {
        match self.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::ResourceExhausted,
            _ => Kind::Internal,
        }
    }
}
