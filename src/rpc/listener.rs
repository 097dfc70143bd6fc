//! The unix socket: made with the right mode, never taken from a server that answers,
//! removed at the end.

use std::{
    fs::Permissions,
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

use crate::{host::lock::Holder, model::listen::Listen};

/// The socket cannot be served.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another process answers on it.
    #[error("{path} is served by {holder}: stop it, or choose another {flag}")]
    InUse {
        /// The socket's path.
        path: PathBuf,
        /// The process.
        holder: Holder,
        /// The name of its setting.
        flag: &'static str,
    },
    /// Something that is no socket is in the way.
    #[error("{path} exists and is not a socket: move it away, or choose another {flag}")]
    NotASocket {
        /// What is in the way.
        path: PathBuf,
        /// The name of the socket's setting.
        flag: &'static str,
    },
    /// `fd://` without a socket of systemd.
    #[error("--listen {listen}: {}", not_inherited(passed))]
    NotInherited {
        /// The setting.
        listen: Listen,
        /// What was passed on instead.
        passed: String,
    },
    /// An error of the file system.
    #[error("cannot listen on {path}")]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn not_inherited(passed: &str) -> String {
    if passed.is_empty() {
        "systemd passed no socket: start the socket unit instead of the service, or give a path"
            .to_owned()
    } else {
        format!("systemd passed only {passed}: compare FileDescriptorName= in the socket unit")
    }
}

/// A bound socket whose path disappears with this value.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Binds `path` with mode 0660, replacing a socket that is not served any more.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub async fn bind(path: &Path) -> Result<(Self, UnixListener), ListenError> {
        Self::bind_as(path, 0o660, "--listen").await
    }

    /// The same for root alone: mode 0600, at a place that `--run-dir` decides.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub async fn private(path: &Path) -> Result<(Self, UnixListener), ListenError> {
        Self::bind_as(path, 0o600, "--run-dir").await
    }

    async fn bind_as(
        path: &Path,
        mode: u32,
        flag: &'static str,
    ) -> Result<(Self, UnixListener), ListenError> {
        let io = |source| ListenError::Io { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(io)?;
        }
        clear_stale(path, flag).await?;
        // Bound under a secret name and renamed when the mode is right: there is no
        // moment in which others could connect.
        let hidden = path.with_extension(format!("{}.new", std::process::id()));
        remove_socket(&hidden).map_err(io)?;
        let listener = UnixListener::bind(&hidden).map_err(io)?;
        std::fs::set_permissions(&hidden, Permissions::from_mode(mode)).map_err(io)?;
        std::fs::rename(&hidden, path).map_err(io)?;
        let inode = std::fs::symlink_metadata(path).map_err(io)?.ino();
        Ok((Self { path: path.to_owned(), inode }, listener))
    }
}

impl Drop for Socket {
    /// Removes the path, unless another server's socket is there by now.
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

async fn clear_stale(path: &Path, flag: &'static str) -> Result<(), ListenError> {
    let io = |source| ListenError::Io { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ListenError::NotASocket { path: path.to_owned(), flag });
        }
        Ok(_) => {}
    }
    let in_use = |pid| {
        let holder = Holder { pid, socket: None };
        ListenError::InUse { path: path.to_owned(), holder, flag }
    };
    match UnixStream::connect(path).await.map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::ConnectionRefused, _)) => remove_socket(path).map_err(io),
        Err((io::ErrorKind::NotFound, _)) => Ok(()),
        Ok(stream) => Err(in_use(server(&stream))),
        // A server listens, but its backlog is full.
        Err((io::ErrorKind::WouldBlock, _)) => Err(in_use(None)),
        Err((_, error)) => Err(io(error)),
    }
}

/// The process at the other end.
fn server(stream: &UnixStream) -> Option<u32> {
    let pid = stream.peer_cred().ok()?.pid()?;
    // 0: a process that we cannot see, outside our own namespace of them.
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
