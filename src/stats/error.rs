//! Why there are no figures at all. A single missing figure is not an error.

use thiserror::Error;

use crate::error::Kind;

/// Nothing was read.
#[derive(Debug, Error)]
pub enum StatsError {
    /// Figures would be missing, which would look as if there were no limit and no memory usage.
    #[error(
        "no file descriptors are left to read stats: raise the limit of open files of dockbridge \
         (LimitNOFILE)"
    )]
    Starved,
}

impl StatsError {
    /// The error kind, from which the gRPC code follows.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Starved => Kind::ResourceExhausted,
        }
    }
}
