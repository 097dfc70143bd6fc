//! What can go wrong with the state directory.

use thiserror::Error;

use crate::{error::Kind, host::error::HostError};

/// A checkpoint could not be written, read or removed.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The file system refused.
    #[error("state directory")]
    Host(#[from] HostError),
    /// The value has no JSON form.
    #[error("checkpoint of {subject} has no json form")]
    Encode {
        /// What was to be stored: a sandbox id, or the name of the file.
        subject: String,
        /// What the encoder says.
        #[source]
        source: serde_json::Error,
    },
    /// The task writing the file ended without an answer.
    #[error("writing the checkpoint ended without an answer")]
    Lost,
}

impl CheckpointError {
    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Host(error) => error.kind(),
            Self::Encode { .. } | Self::Lost => Kind::Internal,
        }
    }
}
