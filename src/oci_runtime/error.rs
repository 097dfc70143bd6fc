//! Why the runtime refuses to create a container. Users see the text in Docker's error.

use std::path::PathBuf;

use thiserror::Error;

use crate::host::error::HostError;

/// A failed command of the runtime.
#[derive(Debug, Error)]
pub enum OciRuntimeError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The container is marked as one that needs edits, but has none.
    #[error(
        "container {id} cannot start: {} is missing. dockbridge writes that file before each start. Start the \
         container through the CRI, or remove it: kubelet then creates another one",
        path.display()
    )]
    NoEdits { id: String, path: PathBuf },
    /// A file is not valid.
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot change the container's config.json: {0}")]
    Edit(String),
    /// The kernel or a file system does not support what the edits need.
    #[error("{what}: {reason}")]
    Unsupported { what: String, reason: String },
    /// A checkpoint is refused, or CRIU cannot restore it.
    #[error("{0}")]
    Restore(String),
    #[error("cannot run {runtime}: {source}")]
    Runtime { runtime: String, source: std::io::Error },
}
