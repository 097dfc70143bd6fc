//! Why the store cannot say.

use std::time::Duration;

use thiserror::Error;

use crate::error::Kind;

/// The store cannot answer, or cannot vouch for its answer.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The engine has not been listed once since this process began.
    #[error("the engine has not answered yet: {reason}")]
    NeverSynced {
        /// What stands in the way, from the last attempt.
        reason: String,
    },
    /// The engine kept silent about this object for too long.
    #[error("the engine did not answer for {name} within {waited:?}")]
    Silent {
        /// The object, as the caller named it.
        name: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The writer has ended: the process is going down.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NeverSynced { .. } | Self::Closed => Kind::Unavailable,
            Self::Silent { .. } => Kind::DeadlineExceeded,
        }
    }
}
