//! Tests of the pongs and the close frame of a tunnel.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::Tunnel;
use crate::streaming::client_connection::ClientConnection;

/// The pong does not fit into the full socket, and dockbridge writes nothing later that would also send the pong.
#[tokio::test]
async fn a_pong_is_written_as_soon_as_there_is_room() {
    let (mut client, mut tunnel) = connected().await;
    let give_up = Duration::from_millis(100);
    while timeout(give_up, tunnel.write(&[0; 1000])).await.is_ok() {}
    client.write_all(&[0x89, 0x80 | 6, 0, 0, 0, 0]).await.unwrap();
    client.write_all(b"there?").await.unwrap();
    assert!(timeout(give_up, tunnel.read_u8()).await.is_err());
    let reading = tokio::spawn(async move { tunnel.read_u8().await });
    let (mut head, mut binary) = ([0; 2], [0; 1002]);
    loop {
        client.read_exact(&mut head).await.unwrap();
        match head {
            [0x82, 126] => drop(client.read_exact(&mut binary).await.unwrap()),
            head => break assert_eq!(head, [0x8a, 6]),
        }
    }
    let mut pong = [0; 6];
    client.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"there?");
    reading.abort();
}

#[tokio::test]
async fn no_pong_follows_a_close_frame() {
    let (mut client, mut tunnel) = connected().await;
    tunnel.close(&[]);
    // A ping, then a message with one byte.
    client.write_all(&[0x89, 0x80, 0, 0, 0, 0, 0x82, 0x81, 0, 0, 0, 0, 7]).await.unwrap();
    assert_eq!(tunnel.read_u8().await.unwrap(), 7);
    tunnel.flush().await.unwrap();
    drop(tunnel);
    let mut sent = Vec::new();
    client.read_to_end(&mut sent).await.unwrap();
    assert_eq!(sent, [0x88, 0]);
}

async fn connected() -> (TcpStream, Tunnel) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let wire = ClientConnection::new(listener.accept().await.unwrap().0, Bytes::new());
    (client, Tunnel::open(wire))
}
