//! Why the files of an image cannot be read or mounted.

use std::{path::PathBuf, sync::Arc};

use thiserror::Error;

use crate::{
    concurrency::single_flight::Lost, engine::error::EngineError, error::Kind,
    host::error::HostError, model::engine::ApiVersion, store::error::StoreError,
};

/// The files of an image could not be read or mounted.
#[derive(Clone, Debug, Error)]
pub enum ImageFilesError {
    /// The engine refused the request or did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file of an image is larger than any valid file of its kind.
    #[error("{path} of the image has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        path: String,
        size: u64,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// Opening this file of an image could block forever.
    #[error("{path} of the image is a pipe or a device: Docker could hang on it forever")]
    NotRegularFile { path: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the image is not on this node: pull it first")]
    NoImage,
    #[error("sub path {path:?} does not exist in the image: {reason}")]
    NoSubPath { path: String, reason: &'static str },
    /// A path in the image that the engine's JSON cannot contain.
    #[error("sub path {path:?} resolves to a name that is not UTF-8")]
    SubPathNotUtf8 { path: String },
    /// This engine cannot mount images, and dockbridge cannot mount them from its image store.
    #[error(
        "Docker with API {api} and images stored by {store} cannot mount images: use Docker 28.0 or \
         later, or the storage driver overlay2 without containerd's image store"
    )]
    Unsupported { api: ApiVersion, store: String },
    /// The image's files are on this host, but the engine does not see the directory where we mount them.
    #[error(
        "Docker does not see what dockbridge mounts at {}: run both in one mount namespace, or make \
         the mount above it shared (mount --make-rshared)",
        path.display()
    )]
    NotVisible { path: PathBuf },
    #[error(transparent)]
    Host(#[from] Arc<HostError>),
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl ImageFilesError {
    /// The kind of the error, which says whether a retry makes sense.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::TooLarge { .. } | Self::NotRegularFile { .. } => Kind::FailedPrecondition,
            Self::Store(error) => error.kind(),
            Self::NoImage => Kind::NotFound,
            Self::NoSubPath { .. } | Self::SubPathNotUtf8 { .. } => Kind::InvalidArgument,
            Self::Unsupported { .. } => Kind::Unimplemented,
            Self::NotVisible { .. } => Kind::FailedPrecondition,
            Self::Host(error) => error.kind(),
            Self::Lost(_) => Kind::Internal,
        }
    }
}

impl From<HostError> for ImageFilesError {
    fn from(error: HostError) -> Self {
        Self::Host(Arc::new(error))
    }
}
