//! One direction of a stream to the client, whichever transport it lives on.

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

/// What the client gets on one stream.
#[derive(Debug)]
pub enum Writer {
    Spdy(Sender),
    /// A channel of a WebSocket.
    WebSocket(Outgoing),
}

impl Reader {
    /// The next bytes, never empty; none at the client's end of the stream or when the client
    /// has gone. Cancel-safe. Dropped, what still comes is discarded.
    pub async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Spdy(receiver) => receiver.next().await,
            Self::WebSocket(inbox) => inbox.next().await,
        }
    }
}

impl Writer {
    /// Sends bytes. Waits for room.
    ///
    /// # Errors
    /// The receiver is closed.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        match self {
            Self::Spdy(sender) => sender.send(bytes).await,
            Self::WebSocket(outgoing) => outgoing.send(bytes).await,
        }
    }

    /// Closes the channel. A WebSocket has no message for it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn finish(&mut self) -> Result<(), Gone> {
        match self {
            Self::Spdy(sender) => sender.finish().await,
            Self::WebSocket(_) => Ok(()),
        }
    }
    /// Resolves when nothing can be sent any more: a client that has reset the stream, or left,
    /// is noticed though nothing comes from it.
    pub async fn gone(&self) {
        match self {
            Self::Spdy(sender) => sender.gone().await,
            Self::WebSocket(outgoing) => outgoing.gone().await,
        }
    }
}
