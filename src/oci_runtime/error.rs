//! The errors of dockbridge-runtime. Docker shows them in its own errors.

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
    #[error("{0}")]
    Other(String),
}
