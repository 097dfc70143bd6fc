//! Why the inside of an image cannot be reached.

use thiserror::Error;

use crate::{engine::error::EngineError, error::Kind};

/// A look into an image failed.
#[derive(Clone, Debug, Error)]
pub enum RootfsError {
    /// The engine refused or did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file of an image is larger than anything of its kind should be.
    #[error("{path} of the image has {size} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Path in the image.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// The task doing it ended without an answer.
    #[error("the look into the image ended without an answer")]
    Lost,
}

impl RootfsError {
    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::TooLarge { .. } => Kind::FailedPrecondition,
            Self::Lost => Kind::Internal,
        }
    }
}
