//! Errors of the state directory.

use std::path::PathBuf;

use thiserror::Error;

use crate::{
    error::{Kind, WithKind},
    host::error::HostError,
};

/// A checkpoint could not be written, read or removed.
#[derive(Debug, Error)]
pub enum CheckpointError {
    #[error("cannot use the state directory")]
    Host(#[from] HostError),
    #[error("cannot encode {} as JSON", file.display())]
    Encode {
        file: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

impl WithKind for CheckpointError {
    fn kind(&self) -> Kind {
        match self {
            Self::Host(error) => error.kind(),
            Self::Encode { .. } => Kind::Internal,
        }
    }
}
