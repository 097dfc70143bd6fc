//! The unix sockets of dockbridge, and the errors if it cannot serve them.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use tokio::net::UnixListener;

use crate::{
    host::{
        listening_socket::{BindError, ListeningSocket},
        lock::Holder,
    },
    model::listen::Listen,
};

/// Why dockbridge cannot serve a socket.
#[derive(Debug, Error)]
pub enum ListenError {
    #[error("{path} is served by {holder}: stop that process, or choose another {flag}")]
    InUse { path: PathBuf, holder: Holder, flag: &'static str },
    #[error("{path} exists and is not a socket: move that file away, or choose another {flag}")]
    NotASocket { path: PathBuf, flag: &'static str },
    /// The setting is `fd://`, but systemd passed no matching socket.
    #[error("--listen {listen}: {}", not_inherited(passed))]
    NotInherited {
        listen: Listen,
        /// The sockets that systemd passed instead, as text.
        passed: String,
    },
    #[error("cannot listen on {path}")]
    Io { path: PathBuf, source: io::Error },
}

fn not_inherited(passed: &str) -> String {
    if passed.is_empty() {
        "systemd passed no socket: start the socket unit instead of the service, or give a path"
            .to_owned()
    } else {
        format!("systemd passed only {passed}: correct --listen or FileDescriptorName=")
    }
}

/// Creates a socket with this mode at `path`. Replaces a socket that no process serves. `flag` is for errors.
pub async fn bind(
    path: &Path,
    mode: u32,
    flag: &'static str,
) -> Result<(ListeningSocket, UnixListener), ListenError> {
    let failed = |error| {
        let path = path.to_owned();
        match error {
            BindError::InUse { pid } => {
                ListenError::InUse { path, holder: Holder { pid, socket: None }, flag }
            }
            BindError::NotASocket => ListenError::NotASocket { path, flag },
            BindError::Io(source) => ListenError::Io { path, source },
        }
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| failed(error.into()))?;
    }
    ListeningSocket::bind(path, mode).await.map_err(failed)
}
