//! The errors of dockbridge-runtime, which Docker's errors show.

use std::path::PathBuf;

use thiserror::Error;

use crate::host::error::HostError;

/// The error of a failed command of dockbridge-runtime.
#[derive(Debug, Error)]
pub enum OciRuntimeError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The container has the annotation of a container that needs edits, but no file with edits.
    #[error(
        "container {id} cannot start: {} is missing. dockbridge writes that file before each start. Start the \
         container through the CRI, or remove it: kubelet then creates another one",
        path.display()
    )]
    NoEdits { id: String, path: PathBuf },
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot change the container's config.json: {0}")]
    Edit(String),
    /// The kernel or a file system does not support a mount that the edits need.
    #[error("{what}: {reason}")]
    Unsupported { what: String, reason: String },
    /// dockbridge-runtime refuses a checkpoint, or CRIU cannot restore it.
    #[error("{0}")]
    Restore(String),
    #[error("cannot run {runtime}: {source}")]
    Runtime { runtime: String, source: std::io::Error },
}
