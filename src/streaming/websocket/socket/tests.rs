//! Channels that nobody reads.

use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::{Format, LARGEST_MESSAGE, Socket, route};
use crate::streaming::{client_connection::ClientConnection, upgrade::Encoding};

#[tokio::test]
async fn unread_data_is_bounded_over_all_channels() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let wire = ClientConnection::new(listener.accept().await.unwrap().0, Bytes::new());
    let (routes, readers): (Vec<_>, Vec<_>) = (0..4).map(|_| route()).unzip();
    let format = Format { encoding: Encoding::Binary, closes: false };
    let _socket = Socket::open(wire, format, routes.into_iter().map(Some).collect()).await;
    let mut client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
    let flood = tokio::spawn(async move {
        for channel in 0..4 {
            let mut message = vec![0; LARGEST_MESSAGE];
            message[0] = channel;
            client.send(Message::Binary(message.into())).await.unwrap();
        }
        client
    });
    let mut readers = readers.into_iter();
    let [mut first, mut second, mut third] = [(); 3].map(|()| readers.next().unwrap());
    assert!(first.next().await.is_some() && second.next().await.is_some());
    // These two are being worked on: there is no room for a third until one is done with.
    assert!(timeout(Duration::from_millis(300), third.next()).await.is_err());
    drop(first);
    assert!(third.next().await.is_some());
    drop((second, third, readers));
    flood.await.unwrap();
}
