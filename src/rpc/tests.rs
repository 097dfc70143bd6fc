//! The socket's manners.

use std::os::unix::fs::PermissionsExt;

use super::listener::{ListenError, Socket};

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run/cri.sock");
    let (socket, listener) = Socket::bind(&path).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert!(matches!(Socket::bind(&path).await, Err(ListenError::InUse(_))));
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
    assert!(matches!(Socket::bind(&path).await, Err(ListenError::NotASocket(_))));
    assert_eq!(std::fs::read(&path).unwrap(), b"data");
}
