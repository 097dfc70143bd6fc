//! Errors of `dockbridge setup`.

use std::{io, path::Path};

use thiserror::Error;

use crate::host::error::HostError;

/// Why `dockbridge setup` failed.
#[derive(Debug, Error)]
pub enum SetupError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot write the output or remove a file: {0}")]
    Output(#[from] io::Error),
}

impl SetupError {
    pub(super) fn of(error: HostError, path: &Path) -> Self {
        match error.source.kind() {
            io::ErrorKind::PermissionDenied => Self::Refused(format!(
                "cannot write {}: run dockbridge setup as root; daemon.json was not changed",
                path.display()
            )),
            _ => Self::Host(error),
        }
    }
}
