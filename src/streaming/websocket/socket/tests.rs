//! Tests of channels that are not read, of pings, and of the end of a connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};

use super::{Format, Socket};
use crate::streaming::{
    client_connection::ClientConnection,
    inbox::{Inbox, LARGEST_PIECE, Window},
    upgrade::Encoding,
};

/// A WebSocket with this many channels, the readers of its channels, and its client.
async fn pair(channels: usize) -> (Socket, Vec<Inbox>, WebSocketStream<TcpStream>) {
    with_window(channels, &Window::default()).await
}

async fn with_window(
    channels: usize,
    window: &Window,
) -> (Socket, Vec<Inbox>, WebSocketStream<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let wire = ClientConnection::new(listener.accept().await.unwrap().0, Bytes::new());
    let (routes, readers): (Vec<_>, Vec<_>) = (0..channels).map(|_| window.stream()).unzip();
    let format = Format { encoding: Encoding::Binary, closes: false };
    let socket = Socket::open(wire, format, routes.into_iter().map(Some).collect());
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    (socket, readers, WebSocketStream::from_raw_socket(theirs, Role::Client, Some(config)).await)
}

#[tokio::test]
async fn unread_data_is_bounded_over_all_channels() {
    let window = Window::default();
    let free = || window.capacity.available_permits();
    let all = free();
    let (_socket, mut readers, mut client) = with_window(3, &window).await;
    let mut message = vec![0; 3 * LARGEST_PIECE];
    let flood = tokio::spawn(async move {
        for channel in [0, 1, 2] {
            message[0] = channel;
            client.send(Message::Binary(message.clone().into())).await.unwrap();
        }
        client
    });
    let mut third = readers.pop().unwrap();
    let mut second = readers.pop().unwrap();
    let mut first = readers.pop().unwrap();
    assert!(first.next().await.is_some());
    // The unread data of the first channel has filled the window, so the second channel receives nothing.
    assert!(timeout(Duration::from_millis(300), second.next()).await.is_err());
    assert!(all <= 2 * LARGEST_PIECE + 256 && free() < all, "{} of {all}", free());
    drop(first);
    let mut read = 0;
    while read < 3 * LARGEST_PIECE - 1 {
        let piece = second.next().await.unwrap();
        assert!(piece.len() <= LARGEST_PIECE);
        read += piece.len();
    }
    drop(second);
    assert!(third.next().await.is_some());
    drop(third);
    flood.await.unwrap();
    // The reading task may still hold data of the third channel, which it will discard.
    let returned = async {
        while free() < all {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), returned).await.expect("places were lost");
}

#[tokio::test]
async fn a_ping_is_answered_and_a_close_too() {
    let (socket, mut readers, mut client) = pair(1).await;
    client.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    let pong = client.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"there?")));
    socket.outgoing(1).send(Bytes::from_static(b"word")).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(b"\x01word"[..].into()));
    let farewell = CloseFrame { code: 1001.into(), reason: "bye".into() };
    client.close(Some(farewell.clone())).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Close(Some(farewell)));
    assert_eq!(readers[0].next().await, None);
    socket.closed().await;
    assert!(socket.outgoing(1).send(Bytes::from_static(b"late")).await.is_err());
}

#[tokio::test]
async fn our_close_waits_for_the_client() {
    let (socket, _readers, mut client) = pair(1).await;
    let closing = async {
        let said = client.next().await.unwrap().unwrap();
        assert!(matches!(&said, Message::Close(Some(frame)) if u16::from(frame.code) == 1000));
        assert!(client.next().await.is_none());
    };
    let parting = async {
        socket.close().await;
        drop(socket);
    };
    tokio::join!(parting, closing);
}

#[tokio::test]
async fn a_send_that_is_given_up_tears_no_frame() {
    let (socket, _readers, mut client) = pair(1).await;
    let outgoing = socket.outgoing(1);
    let mut sent = 0_usize;
    let piece = |number: usize| Bytes::from(vec![number.to_le_bytes()[0]; LARGEST_PIECE]);
    while timeout(Duration::from_millis(100), outgoing.send(piece(sent))).await.is_ok() {
        sent += 1;
    }
    let last = tokio::spawn(async move { outgoing.send(Bytes::from_static(b"last")).await });
    for number in 0..=sent {
        let message = client.next().await.unwrap().unwrap().into_data();
        assert_eq!((message[0], &message[1..]), (1, &piece(number)[..]));
    }
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(b"\x01last"[..].into()));
    last.await.unwrap().unwrap();
}
