//! How the socket is created, replaced and removed.

use std::os::{fd::AsRawFd, unix::fs::PermissionsExt};

use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr, bind, connect, listen,
    shutdown, socket,
};

use super::{BindError, ListeningSocket};

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cri.sock");
    let (socket, listener) = ListeningSocket::bind(&path, 0o660).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert!(matches!(ListeningSocket::bind(&path, 0o660).await, Err(BindError::InUse { .. })));
    // A child process of another test may have a copy of the socket, so closing our copy would not stop the
    // socket from accepting connections.
    shutdown(listener.as_raw_fd(), Shutdown::Both).unwrap();
    std::mem::forget(socket);
    assert!(path.exists());
    let (socket, _listener) = ListeningSocket::bind(&path, 0o660).await.unwrap();
    drop(socket);
    assert!(!path.exists());
}

/// When a socket is bound, the kernel gives its file at most the permissions of the socket itself. With a
/// umask of 0, the file of a new socket would get all permissions.
#[tokio::test]
async fn the_socket_has_its_mode_before_it_has_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cri.sock");
    let (_socket, listener) = ListeningSocket::bind(&path, 0o600).await.unwrap();
    let mode = nix::sys::stat::fstat(&listener).unwrap().st_mode;
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    assert!(matches!(ListeningSocket::bind(&path, 0o660).await, Err(BindError::NotASocket)));
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
}

/// A server that is too busy to accept is still a server.
#[tokio::test]
async fn a_busy_socket_is_not_taken_for_a_stale_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cri.sock");
    let address = UnixAddr::new(&path).unwrap();
    let kind = (AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_NONBLOCK);
    let server = socket(kind.0, kind.1, kind.2, None).unwrap();
    bind(server.as_raw_fd(), &address).unwrap();
    listen(&server, Backlog::new(0).unwrap()).unwrap();
    let mut callers = Vec::new();
    loop {
        let caller = socket(kind.0, kind.1, kind.2, None).unwrap();
        if connect(caller.as_raw_fd(), &address).is_err() {
            break;
        }
        callers.push(caller);
    }
    assert!(matches!(ListeningSocket::bind(&path, 0o660).await, Err(BindError::InUse { .. })));
    assert!(path.exists());
}
