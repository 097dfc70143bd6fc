//! Why the store has no answer.

use std::time::Duration;

use thiserror::Error;

use crate::{engine::error::EngineError, error::Kind};

/// The store has no answer, or none that is up to date.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error("Docker has not listed its containers yet: {reason}")]
    NeverSynced { reason: String },
    #[error("cannot inspect {name}")]
    Inspect {
        /// The object, as the caller named it.
        name: String,
        /// The engine's answer, or why it could not be asked.
        #[source]
        source: EngineError,
    },
    #[error("Docker did not answer the inspect of {name} within {waited:?}")]
    InspectTimeout { name: String, waited: Duration },
    #[error("internal error: the inspect of {name} panicked")]
    InspectPanicked { name: String },
    /// The writer task has ended because the process is shutting down.
    #[error("dockbridge is shutting down")]
    Closed,
}

impl StoreError {
    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Inspect { source, .. } => source.kind(),
            Self::InspectPanicked { .. } => Kind::Internal,
            Self::NeverSynced { .. } | Self::Closed => Kind::Unavailable,
            Self::InspectTimeout { .. } => Kind::DeadlineExceeded,
        }
    }
}
