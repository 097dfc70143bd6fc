//! A unix socket on which dockbridge listens. dockbridge does not replace the socket of a running server.

use std::{
    fs::Permissions,
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::sys::stat::{Mode, fchmod};
use thiserror::Error;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::file::if_there;

/// Why a socket could not be created.
#[derive(Debug, Error)]
pub enum BindError {
    #[error("another process serves the socket")]
    InUse { pid: Option<u32> },
    #[error("the path exists and is not a socket")]
    NotASocket,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A bound socket. Dropping this value removes the socket's path, if no other socket has replaced it there.
#[derive(Debug)]
pub struct ListeningSocket {
    path: PathBuf,
    inode: u64,
}

impl ListeningSocket {
    /// Binds `path`, in an existing directory, with a mode. Replaces a socket on which no server listens.
    pub async fn bind(path: &Path, mode: u32) -> Result<(Self, UnixListener), BindError> {
        clear_stale(path).await?;
        // No other user can connect too early: whatever the umask is, the socket's file never has more
        // permissions than `mode`, and it gets its final name only after its mode.
        let hidden = path.with_extension(format!("{}.new", std::process::id()));
        remove_socket(&hidden)?;
        let socket = UnixSocket::new_stream()?;
        fchmod(socket.as_fd(), Mode::from_bits_truncate(mode)).map_err(io::Error::from)?;
        socket.bind(&hidden)?;
        let listener = socket.listen(BACKLOG)?;
        std::fs::set_permissions(&hidden, Permissions::from_mode(mode))?;
        std::fs::rename(&hidden, path)?;
        let inode = std::fs::symlink_metadata(path)?.ino();
        Ok((Self { path: path.to_owned(), inode }, listener))
    }

    /// Whether the path still belongs to this socket.
    pub fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode)
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        if self.is_in_place() {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

async fn clear_stale(path: &Path) -> Result<(), BindError> {
    let Some(found) = if_there(std::fs::symlink_metadata(path))? else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket);
    }
    match UnixStream::connect(path).await.map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::ConnectionRefused, _)) => Ok(remove_socket(path)?),
        Err((io::ErrorKind::NotFound, _)) => Ok(()),
        Ok(stream) => Err(BindError::InUse { pid: server(&stream) }),
        // A server listens on the socket, but its backlog is full.
        Err((io::ErrorKind::WouldBlock, _)) => Err(BindError::InUse { pid: None }),
        Err((_, error)) => Err(error.into()),
    }
}

fn server(stream: &UnixStream) -> Option<u32> {
    let pid = stream.peer_cred().ok()?.pid()?;
    // The kernel returns the pid 0 for a process outside of this pid namespace.
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

fn remove_socket(path: &Path) -> io::Result<()> {
    if_there(std::fs::remove_file(path)).map(drop)
}

/// How many clients may wait to be accepted. The kernel may reduce this number.
const BACKLOG: u32 = 1024;

#[cfg(test)]
mod tests;
