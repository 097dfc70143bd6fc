//! Tests with a client that reads, and with a client that does not read.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::ClientConnection;

#[tokio::test]
async fn delivered_bytes_are_counted_and_a_stalled_client_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut wire = ClientConnection::new(listener.accept().await.unwrap().0, Bytes::new());
    let watch = wire.watch();
    assert_eq!(watch.delivered(), 0);
    let chunk = vec![7; 1 << 20];
    let stuffed = async {
        loop {
            wire.write_all(&chunk).await.unwrap();
        }
    };
    assert!(timeout(Duration::from_millis(300), stuffed).await.is_err());
    watch.stalled(Duration::from_millis(1)).await;
    let before = watch.delivered();
    let mut read = 0;
    while watch.delivered() == before {
        read += theirs.read(&mut vec![0; 1 << 20]).await.unwrap();
    }
    assert!(read > 0 && watch.delivered() > before);
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_is_idle_and_can_be_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut wire = ClientConnection::new(listener.accept().await.unwrap().0, Bytes::new());
    let watch = wire.watch();
    for _ in 0..2 {
        let before = watch.transferred();
        theirs.write_all(b"x").await.unwrap();
        wire.read_exact(&mut [0]).await.unwrap();
        assert_eq!(watch.transferred(), before + 1, "from the client");
        wire.write_all(b"y").await.unwrap();
        theirs.read_exact(&mut [0]).await.unwrap();
        while watch.transferred() < before + 2 {
            tokio::task::yield_now().await;
        }
    }
    watch.idle(Duration::from_millis(10)).await;
    watch.close();
    assert_eq!(wire.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(theirs.read(&mut [0]).await.unwrap(), 0);
}
