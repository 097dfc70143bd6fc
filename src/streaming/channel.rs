//! One direction of a stream between dockbridge and the client, over SPDY or WebSocket.

use bytes::Bytes;

use super::{
    inbox::Inbox,
    spdy::stream::{Gone, Receiver, Sender},
    websocket::socket::Outgoing,
};

/// Reads the bytes that the client sends on one stream.
#[derive(Debug)]
pub enum Reader {
    Spdy(Receiver),
    WebSocket(Inbox),
}

/// Sends bytes to the client on one stream.
#[derive(Debug)]
pub enum Writer {
    Spdy(Sender),
    WebSocket(Outgoing),
}

impl Reader {
    /// The next bytes, never empty. `None` if no more bytes will come. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Spdy(receiver) => receiver.next().await,
            Self::WebSocket(inbox) => inbox.next().await,
        }
    }
}

impl Writer {
    /// Sends bytes. Waits until the connection has room.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        match self {
            Self::Spdy(sender) => sender.send(bytes).await,
            Self::WebSocket(outgoing) => outgoing.send(bytes).await,
        }
    }

    /// Ends the direction to the client. Does nothing for a WebSocket, whose channels stay open.
    pub async fn finish(&mut self) -> Result<(), Gone> {
        match self {
            Self::Spdy(sender) => sender.finish().await,
            Self::WebSocket(_) => Ok(()),
        }
    }
    /// Resolves once the stream was reset or the connection has ended, even while dockbridge sends nothing.
    pub async fn closed(&self) {
        match self {
            Self::Spdy(sender) => sender.closed().await,
            Self::WebSocket(outgoing) => outgoing.closed().await,
        }
    }
}
