//! Errors of image calls.

use std::time::Duration;

use thiserror::Error;

use super::stall::StuckLayer;
use crate::{
    concurrency::single_flight::Lost,
    engine::error::EngineError,
    error::Kind,
    model::{
        id::ImageId,
        reference::{ImageReference, InvalidReference},
    },
    store::error::StoreError,
};

/// An image call failed. Cheap to clone: several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum ImageError {
    /// An error of the engine or the registry. Kubelet parses the beginning of this text
    /// (`RegistryUnavailable: …`), so it has no prefix.
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("pull of {reference} made no progress for {silent:?}: {}", stuck_at(layer.as_deref()))]
    Stalled {
        reference: ImageReference,
        /// Time without progress.
        silent: Duration,
        /// The layer without progress; none before the first layer is reported.
        layer: Option<Box<StuckLayer>>,
    },
    #[error("image {image} is used by container {container}")]
    InUse {
        image: ImageId,
        /// Engine id of one of the containers, whether it belongs to a pod or not.
        container: String,
    },
    #[error("image {id} still exists after {attempts} removals")]
    StillThere { id: ImageId, attempts: u32 },
    #[error("the pause image {name} is missing and cannot be pulled")]
    Unpullable { name: String, source: InvalidReference },
    /// The engine loaded the built-in pause image, but does not list it after that.
    #[error("docker loaded the pause image but does not list it as {reference}")]
    NotLoaded { reference: &'static str },
    #[error("docker has not answered yet: the image file system is unknown")]
    NoFilesystem,
    #[error(transparent)]
    Lost(#[from] Lost),
}

fn stuck_at(layer: Option<&StuckLayer>) -> String {
    layer.map_or_else(|| "the registry has named no layer yet".to_owned(), ToString::to_string)
}

impl ImageError {
    /// The kind, which decides the gRPC code.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Stalled { .. } => Kind::DeadlineExceeded,
            Self::InUse { .. } | Self::StillThere { .. } | Self::Unpullable { .. } => {
                Kind::FailedPrecondition
            }
            Self::NoFilesystem => Kind::Unavailable,
            Self::NotLoaded { .. } | Self::Lost(_) => Kind::Internal,
        }
    }
}
