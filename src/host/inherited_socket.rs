//! Listening sockets that systemd opened and passed on (socket activation, sd_listen_fds(3)).
//!
//! They live as long as the socket unit: while the service restarts, callers wait in the backlog.

use std::{
    fs, io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::socket::{SockType, getsockopt, sockopt},
};
use thiserror::Error;

/// A listening unix socket with a path. It does not block, and other programs do not inherit it.
#[derive(Debug)]
pub struct InheritedSocket {
    /// `FileDescriptorName=` of the socket unit, which is the unit's own name if it is not set.
    pub name: String,
    /// Its descriptor when it was inherited.
    pub descriptor: RawFd,
    /// The path it is bound to.
    pub path: PathBuf,
    pub listener: UnixListener,
}

/// What systemd passed on is not usable.
#[derive(Debug, Error)]
pub enum InheritedSocketError {
    /// Not a number of descriptors.
    #[error("LISTEN_FDS={0:?} is not a number of sockets: start dockbridge from its socket unit")]
    Count(String),
    /// Something else than a listening unix stream socket.
    #[error(
        "descriptor {descriptor} ({name:?}), passed by the socket unit, is not a listening unix \
         stream socket with a path: give the unit ListenStream=/path only"
    )]
    Unusable {
        /// Its number.
        descriptor: RawFd,
        name: String,
        /// What the kernel says, if it says anything.
        source: io::Error,
    },
}

/// What the environment says: the first descriptor is 3.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    descriptor: RawFd,
    name: String,
}

/// Takes the sockets that were passed to process `pid`, this one. Only the first call of a process
/// gets them.
///
/// # Errors
/// See [`InheritedSocketError`].
pub fn take(
    environment: &dyn Fn(&str) -> Option<String>,
    pid: u32,
) -> Result<Vec<InheritedSocket>, InheritedSocketError> {
    let passed = passed(environment, pid)?;
    if passed.is_empty() || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    passed.into_iter().map(open).collect()
}

fn passed(
    environment: &dyn Fn(&str) -> Option<String>,
    pid: u32,
) -> Result<Vec<Passed>, InheritedSocketError> {
    // A parent's sockets are not ours.
    let (Some(count), true) =
        (environment("LISTEN_FDS"), environment("LISTEN_PID") == Some(pid.to_string()))
    else {
        return Ok(Vec::new());
    };
    let parsed: u16 = count.parse().map_err(|_| InheritedSocketError::Count(count))?;
    let names = environment("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    let descriptors = FIRST..FIRST + RawFd::from(parsed);
    Ok(descriptors.zip(names).map(|(descriptor, name)| Passed { descriptor, name }).collect())
}

fn open(passed: Passed) -> Result<InheritedSocket, InheritedSocketError> {
    let Passed { descriptor, name } = passed;
    match listener(descriptor) {
        Ok((path, listener)) => Ok(InheritedSocket { name, descriptor, path, listener }),
        Err(source) => Err(InheritedSocketError::Unusable { descriptor, name, source }),
    }
}

fn listener(descriptor: RawFd) -> io::Result<(PathBuf, UnixListener)> {
    let socket = own(descriptor)?;
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    if getsockopt(&socket, sockopt::SockType)? != SockType::Stream
        || !getsockopt(&socket, sockopt::AcceptConn)?
    {
        return Err(io::Error::other("it does not listen"));
    }
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let path = address.as_pathname().ok_or_else(|| io::Error::other("it has no path"))?;
    Ok((path.to_owned(), listener))
}

/// The descriptor as a value, if it is open and a socket.
#[allow(unsafe_code, reason = "a descriptor's number becomes a value")]
fn own(descriptor: RawFd) -> io::Result<OwnedFd> {
    let target = fs::read_link(format!("/proc/self/fd/{descriptor}"))?;
    if !target.as_os_str().as_encoded_bytes().starts_with(b"socket:") {
        return Err(io::Error::other(format!("it is {}", target.display())));
    }
    // SAFETY: it is open, and ours: LISTEN_PID names this process, and `take` reads it once, before
    // the program has opened anything itself.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// `SD_LISTEN_FDS_START`.
const FIRST: RawFd = 3;
static TAKEN: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    //! The environment's half; tests/it starts the program with real sockets.

    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Vec<Passed>, String> {
        let read = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        passed(&read, 7).map_err(|error| error.to_string())
    }

    #[test]
    fn descriptors_are_named_in_order() {
        let named = |descriptor, name: &str| Passed { descriptor, name: name.to_owned() };
        let two = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "cri:old")];
        assert_eq!(from(&two), Ok(vec![named(3, "cri"), named(4, "old")]));
        assert_eq!(from(&two[..2]), Ok(vec![named(3, ""), named(4, "")]));
    }

    #[test]
    fn other_processes_sockets_are_not_ours() {
        for variables in [
            &[("LISTEN_FDS", "1")][..],
            &[("LISTEN_PID", "8"), ("LISTEN_FDS", "1")],
            &[("LISTEN_PID", "7")],
            &[("LISTEN_PID", "7"), ("LISTEN_FDS", "0")],
        ] {
            assert_eq!(from(variables), Ok(Vec::new()), "{variables:?}");
        }
    }

    #[test]
    fn counts_that_are_not_numbers_are_refused() {
        for count in ["", "x", "-1", "70000"] {
            let refused = from(&[("LISTEN_PID", "7"), ("LISTEN_FDS", count)]).unwrap_err();
            assert!(refused.starts_with(&format!("LISTEN_FDS={count:?} ")), "{refused}");
        }
    }

    #[test]
    fn files_that_do_not_listen_are_not_taken() {
        let file = fs::File::open("/dev/null").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(own(descriptor).unwrap_err().to_string().contains("/dev/null"));
        assert!(own(-1).is_err());
    }
}
