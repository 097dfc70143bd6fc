//! Reads how many bytes of a connection the peer has not received yet.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use nix::{errno::Errno, libc};

/// How many written bytes the peer has not yet acknowledged (TCP) or not yet read (unix socket, where the
/// kernel counts the whole size of its buffers).
///
/// # Errors
/// The kernel does not count unsent bytes of the descriptor, for example of a file.
#[allow(unsafe_code, reason = "neither nix nor rustix has a safe form of this ioctl")]
pub fn unsent_bytes(socket: &impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed during the call, and the kernel writes one number into `bytes`. For
    // a socket, TIOCOUTQ has the same number as SIOCOUTQ.
    Errno::result(unsafe { libc::ioctl(socket, libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    //! Tests with both ends of a connection.

    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
    };

    use super::unsent_bytes;

    #[test]
    fn unread_bytes_are_counted() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        assert_eq!(unsent_bytes(&ours).unwrap(), 0);
        ours.write_all(b"to be read").unwrap();
        assert!(unsent_bytes(&ours).unwrap() > 0);
        theirs.read_exact(&mut [0; 10]).unwrap();
        assert_eq!(unsent_bytes(&ours).unwrap(), 0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(
            unsent_bytes(&TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap(),
            0
        );
    }
}
