//! Why a file of an image cannot be read.

use thiserror::Error;

use crate::error::{Failure, Kind, WithKind};

/// Why a file of an image was not read. The error can be cloned, because several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum UnreadableFile {
    /// The file is a pipe, device or socket: opening a pipe or device could block forever.
    #[error("file {path} in the image is a pipe, device or socket, not a regular file")]
    NotRegular { path: String },
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl WithKind for UnreadableFile {
    fn kind(&self) -> Kind {
        match self {
            Self::NotRegular { .. } => Kind::FailedPrecondition,
            Self::Failed(failure) => failure.kind(),
        }
    }
}
