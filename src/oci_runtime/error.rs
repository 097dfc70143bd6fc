//! Why the runtime refuses to create a container. The text reaches the user through Docker's error.

use std::path::PathBuf;

use thiserror::Error;

use crate::host::error::HostError;

/// A failed command of the runtime.
#[derive(Debug, Error)]
pub enum OciRuntimeError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The container is marked as one that needs edits, and has none.
    #[error(
        "container {id} cannot start: {}, which dockbridge writes before each start, is missing; \
         start it through the CRI, or remove it and kubelet creates another",
        path.display()
    )]
    NoEdits {
        id: String,
        /// Where the file should be.
        path: PathBuf,
    },
    /// A file is not what it should be.
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot change the container's config.json: {0}")]
    Edit(String),
    /// The kernel or a file system cannot do what the edits ask for.
    #[error("{what}: {reason}")]
    Unsupported {
        what: String,
        /// Why not, and what would help.
        reason: String,
    },
    #[error("cannot run {runtime}: {source}")]
    Runtime { runtime: String, source: std::io::Error },
}
