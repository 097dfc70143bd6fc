//! Why a step of writing a log failed.

use std::path::PathBuf;

use thiserror::Error;

use crate::{
    engine::error::EngineError,
    error::{Kind, WithKind},
    host::error::HostError,
};

/// A step of writing a log failed. Written lines stay, and the next step continues after them.
#[derive(Debug, Error)]
pub enum LogError {
    /// The engine has no file there: it is not there yet, was removed, or is not on this host.
    #[error("the engine has no log file at {}", path.display())]
    SourceAbsent { path: PathBuf },
    #[error("cannot read the engine's log")]
    Source(#[source] HostError),
    /// The CRI file cannot be created or written, usually because the disk is full.
    #[error("cannot write the log")]
    Target(#[source] HostError),
    /// The engine failed to return the log.
    #[error(transparent)]
    Engine(EngineError),
    /// The engine ended its answer although the container runs.
    #[error("the engine ended the log stream while the container runs")]
    Interrupted,
    /// The file system of a log does not answer.
    #[error(
        "the log directory {} does not answer; check the file system mounted there",
        directory.display()
    )]
    Hung { directory: PathBuf },
    #[error("no log is written for container {id}")]
    Unknown { id: String },
    /// dockbridge is stopping, or the task that writes logs has ended.
    #[error("dockbridge is stopping: logs are no longer written")]
    Closed,
}

impl LogError {
    /// Whether the disk is full. This is temporary.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Target(error) if error.kind() == Kind::ResourceExhausted)
    }
}

impl WithKind for LogError {
    fn kind(&self) -> Kind {
        match self {
            Self::SourceAbsent { .. } => Kind::NotFound,
            Self::Target(_) if !self.is_full() => Kind::FailedPrecondition,
            Self::Source(error) | Self::Target(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Hung { .. } => Kind::DeadlineExceeded,
            Self::Interrupted | Self::Closed => Kind::Unavailable,
            Self::Unknown { .. } => Kind::FailedPrecondition,
        }
    }
}
