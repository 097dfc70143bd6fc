//! Listening sockets that systemd has opened and passed to dockbridge (socket activation, sd_listen_fds(3)).
//!
//! The sockets exist as long as the socket unit runs. During a restart of dockbridge, clients wait in the backlog.

use std::{
    fs, io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::sys::socket::{SockType, getsockopt, sockopt};
use thiserror::Error;

/// A listening unix socket with a path. The socket is non-blocking, and child processes do not inherit it.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The setting `FileDescriptorName=` of the socket unit, which defaults to the unit's name. `unknown` if
    /// the program that started dockbridge sets no names.
    pub name: String,
    /// The number of the socket's file descriptor when dockbridge inherited it.
    pub descriptor: RawFd,
    pub path: PathBuf,
    pub listener: UnixListener,
}

/// Why the sockets from systemd cannot be used.
#[derive(Debug, Error)]
pub enum InheritedSocketError {
    #[error(
        "LISTEN_PID, LISTEN_FDS or LISTEN_FDNAMES is wrong: start dockbridge from its socket unit"
    )]
    Variables(#[source] io::Error),
    #[error(
        "descriptor {descriptor} ({name:?}), passed by the socket unit, is not a listening unix \
         stream socket with a path: in the unit, use ListenStream=/path and no other Listen setting"
    )]
    Unusable { descriptor: RawFd, name: String, source: io::Error },
}

/// Takes the sockets that were passed to this process. Only the first call in a process returns the sockets.
pub fn take() -> Result<Vec<InheritedSocket>, InheritedSocketError> {
    // If LISTEN_PID names another process, systemd has passed no sockets to this process.
    // `sd_notify::listen_fds_with_names` would treat the variables for the other process as an error.
    if sd_notify::listen_fds().map_err(InheritedSocketError::Variables)?.len() == 0 {
        return Ok(Vec::new());
    }
    let passed = sd_notify::listen_fds_with_names().map_err(InheritedSocketError::Variables)?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    passed.map(|(descriptor, name)| open(descriptor, name)).collect()
}

fn open(descriptor: RawFd, name: String) -> Result<InheritedSocket, InheritedSocketError> {
    match listener(descriptor) {
        Ok((path, listener)) => Ok(InheritedSocket { name, descriptor, path, listener }),
        Err(source) => Err(InheritedSocketError::Unusable { descriptor, name, source }),
    }
}

fn listener(descriptor: RawFd) -> io::Result<(PathBuf, UnixListener)> {
    let socket = own(descriptor)?;
    if getsockopt(&socket, sockopt::SockType)? != SockType::Stream
        || !getsockopt(&socket, sockopt::AcceptConn)?
    {
        return Err(io::Error::other("the socket is not a listening stream socket"));
    }
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let path = address.as_pathname().ok_or_else(|| io::Error::other("the socket has no path"))?;
    Ok((path.to_owned(), listener))
}

#[allow(unsafe_code, reason = "takes ownership of a descriptor that is known only by its number")]
fn own(descriptor: RawFd) -> io::Result<OwnedFd> {
    let target = fs::read_link(format!("/proc/self/fd/{descriptor}"))?;
    if !target.as_os_str().as_encoded_bytes().starts_with(b"socket:") {
        return Err(io::Error::other(format!("it is {}", target.display())));
    }
    // SAFETY: the descriptor is open, and nothing else in this process owns it: LISTEN_PID names this
    // process, and only the first call of `take` gets here, before the program keeps another descriptor open.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

static TAKEN: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    //! Tests descriptors that are not sockets. Tests in `tests/it` start the program with real sockets.

    use super::*;

    #[test]
    fn files_that_do_not_listen_are_not_taken() {
        let file = fs::File::open("/dev/null").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(own(descriptor).unwrap_err().to_string().contains("/dev/null"));
        assert!(own(-1).is_err());
    }
}
