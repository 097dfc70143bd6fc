//! The number of unsent bytes of a connection.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Bytes that were written to a connection and are not yet acknowledged by the peer's kernel.
///
/// # Errors
/// The descriptor is not a connected socket.
pub fn unsent_bytes(socket: &impl AsFd) -> io::Result<u64> {
    let mut bytes = 0;
    ask(socket.as_fd().as_raw_fd(), &mut bytes)?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

#[allow(unsafe_code, reason = "no safe wrapper of this system call")]
fn ask(socket: std::os::fd::RawFd, bytes: &mut nix::libc::c_int) -> nix::Result<()> {
    // SAFETY: the descriptor is borrowed during the call, and the kernel writes one number into a variable here.
    unsafe { ioctl::outq(socket, bytes) }.map(drop)
}

mod ioctl {
    //! The raw call.
    #![allow(unsafe_code, reason = "generated wrapper of an ioctl")]
    #![allow(missing_docs, reason = "generated")]

    use nix::libc;

    // For a socket this is SIOCOUTQ, which has the same number.
    nix::ioctl_read_bad!(outq, libc::TIOCOUTQ, libc::c_int);
}

#[cfg(test)]
mod tests {
    //! Two ends of a connection.

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
