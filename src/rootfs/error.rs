//! Why the inside of an image cannot be reached.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

use crate::{
    engine::error::EngineError, error::Kind, host::error::HostError, model::engine::ApiVersion,
    store::error::StoreError,
};

/// A look into an image failed.
#[derive(Clone, Debug, Error)]
pub enum RootfsError {
    /// The engine refused or did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file of an image is larger than anything of its kind should be.
    #[error("{path} of the image has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Path in the image.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// Something of an image that whoever opens may never come back from.
    #[error("{path} of the image is a pipe or a device: Docker could hang on it for ever")]
    NoFile {
        /// Path in the image.
        path: String,
    },
    /// What is true now is not known.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine does not have the image.
    #[error("the image is not on this node: pull it first")]
    NoImage,
    /// A path in the image leads nowhere.
    #[error("sub path {path:?} does not exist in the image: {reason}")]
    NoSubPath {
        /// As the caller states it.
        path: String,
        /// What is there instead.
        reason: &'static str,
    },
    /// A path in the image that cannot be told to the engine.
    #[error("sub path {path:?} resolves to a name that is not UTF-8")]
    UnspeakableSubPath {
        /// As the caller states it.
        path: String,
    },
    /// This engine can neither mount an image nor let us do it.
    #[error(
        "neither the engine (API {api}) mounts images nor can it be done for it, with images kept \
         by {store}: use Docker 28.0 or later, or the storage driver overlay2 without containerd's \
         image store"
    )]
    NoWay {
        /// The API spoken.
        api: ApiVersion,
        /// Who keeps the images.
        store: String,
    },
    /// The image's files are on this host, but the engine does not see where we mount them.
    #[error(
        "the engine does not see what dockbridge mounts at {}: let both run in one mount \
         namespace, or mark the mount around it as shared",
        path.display()
    )]
    Unseen {
        /// Where they are mounted.
        path: PathBuf,
    },
    /// This host does not let us.
    #[error(transparent)]
    Host(#[from] Arc<HostError>),
    /// The task doing it ended without an answer.
    #[error("internal error: the image inspection ended without a result")]
    Lost,
}

impl RootfsError {
    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::TooLarge { .. } | Self::NoFile { .. } => Kind::FailedPrecondition,
            Self::Store(error) => error.kind(),
            Self::NoImage => Kind::NotFound,
            Self::NoSubPath { .. } | Self::UnspeakableSubPath { .. } => Kind::InvalidArgument,
            Self::NoWay { .. } => Kind::Unimplemented,
            Self::Unseen { .. } => Kind::FailedPrecondition,
            Self::Host(error) => error.kind(),
            Self::Lost => Kind::Internal,
        }
    }
}

impl From<HostError> for RootfsError {
    fn from(error: HostError) -> Self {
        Self::Host(Arc::new(error))
    }
}
