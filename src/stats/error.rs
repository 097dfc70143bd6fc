//! Why there are no figures at all. A figure that is missing is no error.

use thiserror::Error;

use crate::error::Kind;

/// Nothing was read.
#[derive(Debug, Error)]
pub enum StatsError {
    /// The threads that read did not come to an end: dockbridge is ending, or a bug.
    #[error("reading what containers use was interrupted")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl StatsError {
    /// What the caller can do about it.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Interrupted(_) => Kind::Internal,
        }
    }
}
