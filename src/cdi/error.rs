//! Why a CDI device cannot be added to a container.

use std::path::PathBuf;

use thiserror::Error;

use crate::error::Kind;

/// A CDI device cannot be added. Cheap to clone.
#[derive(Clone, Debug, Error)]
pub enum CdiError {
    #[error("CDI device {device:?} is in no specification of {directories}{errors}")]
    Unknown {
        device: String,
        directories: String,
        /// The files that could not be read, with a semicolon in front.
        errors: String,
    },
    #[error(
        "CDI device {device:?} is defined twice: in {} and in {}", first.display(), second.display()
    )]
    Duplicate { device: String, first: PathBuf, second: PathBuf },
    #[error("CDI device {device:?} of {}: {problem}", file.display())]
    Unusable { device: String, file: PathBuf, problem: String },
}

impl CdiError {
    /// Never worth a retry at once: first something on the host has to change.
    pub const fn kind(&self) -> Kind {
        Kind::FailedPrecondition
    }
}
