//! Errors of CheckpointContainer and CheckpointPod.

use std::{path::PathBuf, time::Duration};

use thiserror::Error;

use crate::{
    concurrency::single_flight::Lost,
    engine::error::EngineError,
    error::{Failure, Kind, WithKind},
    host::error::HostError,
};

/// Why a checkpoint could not be made. The containers keep running, and no file of the checkpoint is left.
#[derive(Debug, Error)]
pub enum DumpError {
    #[error("container {id} is not known")]
    NotFound { id: String },
    #[error("sandbox {id} is not known")]
    NoPod { id: String },
    #[error("sandbox {id} is not ready")]
    NotReady { id: String },
    #[error("container {id} is not in the pod")]
    OtherPod { id: String },
    #[error("container {id} is not running")]
    NotRunning { id: String },
    #[error("container {id} is paused: unpause it first (docker unpause)")]
    Paused { id: String },
    #[error("a checkpoint of container {id} is already being made")]
    InProgress { id: String },
    #[error("container {id} is busy: for example, a stop or the start of a command has not ended")]
    Busy { id: String },
    #[error("criu is not installed: no such program in PATH; install CRIU 4.0 or newer")]
    NoCriu,
    #[error("container {id} cannot be checkpointed: {reason}")]
    Unfit { id: String, reason: String },
    #[error("output_path: {} is not empty", location.display())]
    NotEmpty { location: PathBuf },
    #[error("location: {} already exists", location.display())]
    Exists { location: PathBuf },
    #[error(
        "output_path: {} is on a file system without hard links, which the checkpoint of a pod needs",
        directory.display()
    )]
    NoLinks { directory: PathBuf },
    #[error("{} is not a directory", directory.display())]
    NoDirectory { directory: PathBuf },
    #[error(
        "not enough space for the checkpoint on the file system of {}: the checkpoint needs up to {} MiB, and {} MiB are free",
        place.display(), needed >> 20, free >> 20
    )]
    NoSpace { place: PathBuf, needed: u64, free: u64 },
    #[error(
        "the checkpoint of {id} was not complete after {}s; dockbridge discards it once CRIU has ended",
        limit.as_secs()
    )]
    TimedOut { id: String, limit: Duration },
    #[error("the caller of the checkpoint of {id} has disconnected")]
    Abandoned { id: String },
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] Failure),
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl WithKind for DumpError {
    fn kind(&self) -> Kind {
        match self {
            Self::NotFound { .. } | Self::NoPod { .. } => Kind::NotFound,
            Self::NotRunning { .. }
            | Self::NotReady { .. }
            | Self::NotEmpty { .. }
            | Self::NoLinks { .. }
            | Self::Paused { .. }
            | Self::InProgress { .. }
            | Self::Busy { .. }
            | Self::NoCriu
            | Self::Unfit { .. } => Kind::FailedPrecondition,
            Self::Exists { .. } => Kind::AlreadyExists,
            Self::NoDirectory { .. } | Self::OtherPod { .. } => Kind::InvalidArgument,
            Self::NoSpace { .. } => Kind::ResourceExhausted,
            Self::TimedOut { .. } => Kind::DeadlineExceeded,
            Self::Abandoned { .. } => Kind::Cancelled,
            Self::Host(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Lost(_) => Kind::Internal,
        }
    }
}
