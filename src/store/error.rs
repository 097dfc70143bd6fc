//! Why the store cannot say.

use std::time::Duration;

use thiserror::Error;

use crate::{engine::error::EngineError, error::Kind};

/// The store cannot answer, or cannot vouch for its answer.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The engine has not been listed once since this process began.
    #[error("the engine has not answered yet: {reason}")]
    NeverSynced {
        /// What stands in the way, from the last attempt.
        reason: String,
    },
    /// The engine did not answer for this object; the store keeps the last it knew.
    #[error("cannot look at {name}")]
    Look {
        /// The object, as the caller named it.
        name: String,
        /// What the engine, or the way to it, says.
        #[source]
        source: EngineError,
    },
    /// The engine kept silent about this object for too long.
    #[error("the engine did not answer for {name} within {waited:?}")]
    Silent {
        /// The object, as the caller named it.
        name: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The task looking at it ended without an answer.
    #[error("the look at {name} ended without an answer")]
    Lost {
        /// The object, as the caller named it.
        name: String,
    },
    /// The writer has ended: the process is going down.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Look { source, .. } => source.kind(),
            Self::Lost { .. } => Kind::Internal,
            Self::NeverSynced { .. } | Self::Closed => Kind::Unavailable,
            Self::Silent { .. } => Kind::DeadlineExceeded,
        }
    }
}
