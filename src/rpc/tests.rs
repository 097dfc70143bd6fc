//! The socket's manners.

use std::os::{fd::AsRawFd, unix::fs::PermissionsExt};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};

use super::listener::{ListenError, Socket};

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run/cri.sock");
    let (socket, listener) = Socket::bind(&path).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let private = directory.path().join("run/private.sock");
    let _kept = Socket::private(&private).await.unwrap();
    assert_eq!(std::fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(Socket::bind(&path).await, Err(ListenError::InUse { .. })));
    drop(listener);
    std::mem::forget(socket);
    assert!(path.exists());
    let (socket, _listener) = Socket::bind(&path).await.unwrap();
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    assert!(matches!(Socket::bind(&path).await, Err(ListenError::NotASocket { .. })));
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
    assert!(matches!(Socket::bind(&path).await, Err(ListenError::InUse { .. })));
    assert!(path.exists());
}
