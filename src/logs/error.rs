//! Why a log could not be written or reopened.

use std::path::PathBuf;

use thiserror::Error;

use crate::{
    error::{Kind, WithKind},
    host::error::HostError,
};

/// Lines that were written before the error stay, and the next attempt continues after them.
#[derive(Debug, Error)]
pub enum LogError {
    /// The engine's log driver writes no file that dockbridge can read.
    #[error(
        "Docker's log driver {driver:?} writes no file that dockbridge can read; delete the pod to \
         recreate the container with the driver json-file"
    )]
    NoSource { driver: String },
    /// The engine has not created the log file yet, the file was removed, or dockbridge cannot see Docker's files.
    #[error(
        "Docker's log file {} does not exist here; if dockbridge runs in a container, mount Docker's \
         data root at the same path",
        path.display()
    )]
    SourceAbsent { path: PathBuf },
    #[error("cannot read Docker's log of the container")]
    Source(#[source] HostError),
    /// A file or link at the log's path, or its directory, cannot be created, read, written or removed, for example
    /// because the disk is full.
    #[error("cannot use the container's log path")]
    Target(#[source] HostError),
    #[error(
        "the work on the log in {} did not end in time; check whether the file system of this \
         directory or of Docker's log files hangs",
        directory.display()
    )]
    Hung { directory: PathBuf },
    #[error("no log is written for container {id}")]
    Unknown { id: String },
    #[error(
        "cannot reopen the container log: dockbridge is stopping, the container was removed, or a \
         bug in dockbridge interrupted the call"
    )]
    Closed,
}

impl LogError {
    /// Whether the error is that a disk or quota is full, which is temporary.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Target(error) if error.kind() == Kind::ResourceExhausted)
    }
}

impl WithKind for LogError {
    fn kind(&self) -> Kind {
        match self {
            Self::Target(_) if !self.is_full() => Kind::FailedPrecondition,
            Self::Source(error) | Self::Target(error) => error.kind(),
            Self::Hung { .. } => Kind::DeadlineExceeded,
            Self::Closed => Kind::Unavailable,
            Self::NoSource { .. } | Self::SourceAbsent { .. } | Self::Unknown { .. } => {
                Kind::FailedPrecondition
            }
        }
    }
}
