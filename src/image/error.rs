//! Why an image verb failed.

use std::time::Duration;

use thiserror::Error;

use super::stall::StuckLayer;
use crate::{
    engine::error::EngineError,
    error::Kind,
    model::{
        id::ImageId,
        reference::{ImageReference, InvalidReference},
    },
    store::error::StoreError,
};

/// An image verb failed. Cheap to clone, so that joined callers can share one failure.
#[derive(Clone, Debug, Error)]
pub enum ImageError {
    /// The engine, or the registry behind it, said no. Kubelet reads the beginning of this text
    /// (`RegistryUnavailable: …`), so nothing may be put before it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What was done cannot be shown yet.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pull stopped moving.
    #[error("pull of {reference} made no progress for {silent:?}: {}", place(layer.as_deref()))]
    Stalled {
        /// What was pulled.
        reference: ImageReference,
        /// How long it was waited for.
        silent: Duration,
        /// Where it got stuck; none before the registry named a layer.
        layer: Option<Box<StuckLayer>>,
    },
    /// A container was made from the image.
    #[error("image {image} is used by container {container}")]
    InUse {
        /// The image.
        image: ImageId,
        /// Engine id of one of the containers, a pod's or not.
        container: String,
    },
    /// Whenever the image was removed, somebody gave it a name again.
    #[error("image {id} still exists after {attempts} removals")]
    Remains {
        /// The image.
        id: ImageId,
        /// How often it was removed.
        attempts: u32,
    },
    /// The configured pause image is missing and its name is nothing that can be pulled.
    #[error("the pause image {name} is missing and cannot be pulled")]
    Unpullable {
        /// The name in the configuration.
        name: String,
        /// What is wrong with it.
        source: InvalidReference,
    },
    /// The engine loaded the built-in pause image but does not know it afterwards.
    #[error("docker loaded the pause image but does not list it as {reference}")]
    NotLoaded {
        /// The image's name.
        reference: &'static str,
    },
    /// The engine has not answered once, so it is not known where it keeps images.
    #[error("docker has not answered yet: the image file system is unknown")]
    NoFilesystem,
    /// The task doing it ended without an answer.
    #[error("the {verb} ended without an answer")]
    Lost {
        /// What it did.
        verb: &'static str,
    },
}

fn place(layer: Option<&StuckLayer>) -> String {
    layer.map_or_else(|| "the registry has named no layer yet".to_owned(), ToString::to_string)
}

impl ImageError {
    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Stalled { .. } => Kind::DeadlineExceeded,
            Self::InUse { .. } | Self::Remains { .. } | Self::Unpullable { .. } => {
                Kind::FailedPrecondition
            }
            Self::NoFilesystem => Kind::Unavailable,
            Self::NotLoaded { .. } | Self::Lost { .. } => Kind::Internal,
        }
    }
}
