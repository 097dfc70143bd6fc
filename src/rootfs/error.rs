//! Why the inside of an image cannot be reached.

use thiserror::Error;

use crate::{engine::error::EngineError, error::Kind};

/// A look into an image failed.
#[derive(Clone, Debug, Error)]
pub enum RootfsError {
    /// The engine refused or did not answer.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl RootfsError {
    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
        }
    }
}
