//! Why a step of a log failed.

use std::path::PathBuf;

use thiserror::Error;

use crate::{engine::error::EngineError, error::Kind, host::error::HostError};

/// A step of a log failed. What was written stays, and the next step continues there.
#[derive(Debug, Error)]
pub enum LogError {
    /// The engine has no file there: not yet, not any more, or not on this host.
    #[error("the engine has no log file at {}", path.display())]
    SourceAbsent { path: PathBuf },
    #[error("cannot read the engine's log")]
    Source(#[source] HostError),
    /// The CRI file cannot be made or written. A full disk is the usual cause.
    #[error("cannot write the log")]
    Target(#[source] HostError),
    /// The engine, asked for the log, fails.
    #[error(transparent)]
    Engine(EngineError),
    /// The engine has stopped telling, though the container runs.
    #[error("the engine ended the log stream while the container runs")]
    Interrupted,
    /// The file system of a log does not answer.
    #[error(
        "the log directory {} does not answer; check the file system mounted there",
        directory.display()
    )]
    Hung { directory: PathBuf },
    /// There is no writer of this log.
    #[error("no log is written for container {id}")]
    Unknown { id: String },
    /// dockbridge is going down, or the task that writes logs has died.
    #[error("dockbridge is stopping: logs are not written any more")]
    Closed,
}

impl LogError {
    /// Whether the disk is full, which passes.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Target(error) if error.kind() == Kind::ResourceExhausted)
    }

    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
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
