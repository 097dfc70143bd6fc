//! The errors of dockbridge-runtime, which Docker's errors show.

use std::path::PathBuf;

use thiserror::Error;

use crate::host::error::HostError;

/// The error of a failed command of dockbridge-runtime.
#[derive(Debug, Error)]
pub enum OciRuntimeError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot change the container's config.json: {0}")]
    Edit(String),
    /// Why dockbridge-runtime refuses a container or a container checkpoint, or cannot run the lower runtime.
    #[error("{0}")]
    Other(String),
}
