//! One direction of a stream to the client, over SPDY or WebSocket.

use bytes::Bytes;

use super::{
    inbox::Inbox,
    spdy::stream::{Gone, Receiver, Sender},
    websocket::socket::Outgoing,
};

/// What the client sends on one stream.
#[derive(Debug)]
pub enum Reader {
    Spdy(Receiver),
    /// A channel of a WebSocket.
    WebSocket(Inbox),
}

/// What the client receives on one stream.
#[derive(Debug)]
pub enum Writer {
    Spdy(Sender),
    /// A channel of a WebSocket.
    WebSocket(Outgoing),
}

impl Reader {
    /// The next bytes, never empty. None at the end of the stream, or after the client has disconnected.
    /// Cancel-safe. After a drop, further bytes are discarded.
    pub async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Spdy(receiver) => receiver.next().await,
            Self::WebSocket(inbox) => inbox.next().await,
        }
    }
}

impl Writer {
    /// Sends bytes. Waits until there is room.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        match self {
            Self::Spdy(sender) => sender.send(bytes).await,
            Self::WebSocket(outgoing) => outgoing.send(bytes).await,
        }
    }

    /// Closes the channel. A WebSocket has no message for it.
    pub async fn finish(&mut self) -> Result<(), Gone> {
        match self {
            Self::Spdy(sender) => sender.finish().await,
            Self::WebSocket(_) => Ok(()),
        }
    }
    /// Resolves when nothing more can be sent. So a client that has reset the stream or disconnected is noticed
    /// even if it sends nothing.
    pub async fn closed(&self) {
        match self {
            Self::Spdy(sender) => sender.closed().await,
            Self::WebSocket(outgoing) => outgoing.closed().await,
        }
    }
}
