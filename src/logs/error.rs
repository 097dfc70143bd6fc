//! Why a step of writing a log failed.

use std::path::PathBuf;

use thiserror::Error;

use crate::{
    error::{Kind, WithKind},
    host::error::HostError,
};

/// Why a step of writing a log failed. Written lines stay, and the next step continues after them.
#[derive(Debug, Error)]
pub enum LogError {
    /// The engine's log driver writes no file that dockbridge can read.
    #[error(
        "Docker's log driver {driver:?} writes no file that dockbridge can read; delete the pod to \
         recreate the container with the driver json-file"
    )]
    NoSource { driver: String },
    /// The engine has not created the log file yet, it was removed, or the engine is not on this host.
    #[error(
        "Docker's log file {} does not exist here; if dockbridge runs in a container, mount Docker's \
         data root at the same path",
        path.display()
    )]
    SourceAbsent { path: PathBuf },
    #[error("cannot read the engine's log")]
    Source(#[source] HostError),
    /// A file or link at the log's path, or its directory, cannot be created, read, written or removed, for example
    /// because the disk is full.
    #[error("cannot write the CRI log")]
    Target(#[source] HostError),
    #[error(
        "the log directory {} does not answer; check the file system mounted there",
        directory.display()
    )]
    Hung { directory: PathBuf },
    #[error("no log is written for container {id}")]
    Unknown { id: String },
    /// dockbridge is stopping, or the task that writes logs has ended.
    #[error(
        "the container log is no longer written: dockbridge is stopping, or the container was removed"
    )]
    Closed,
}

impl LogError {
    /// Whether the error is that the disk is full, which is temporary.
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
