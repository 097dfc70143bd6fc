//! Why there are no figures at all. A figure that is missing is no error.

use thiserror::Error;

use crate::error::Kind;

/// Nothing was read.
#[derive(Debug, Error)]
pub enum StatsError {
    /// Figures would be missing, which would look like no limit and no memory use.
    #[error(
        "no file descriptors are left to read stats: raise the limit of open files of dockbridge \
         (LimitNOFILE)"
    )]
    Starved,
}

impl StatsError {
    /// What the caller can do about it.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Starved => Kind::ResourceExhausted,
        }
    }
}
