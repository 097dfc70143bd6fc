//! A WebSocket's binary messages as one stream of bytes: what a SPDY connection in a tunnel runs
//! on.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, protocol::Role},
};

use super::message::limits;
use crate::streaming::client_connection::ClientConnection;

/// The bytes within the messages. Where one message ends and another begins means nothing.
#[derive(Debug)]
pub struct Tunnel {
    socket: WebSocketStream<ClientConnection>,
    ahead: Bytes,
}

impl Tunnel {
    /// Speaks WebSocket on `wire` from now on.
    pub async fn open(wire: ClientConnection) -> Self {
        let socket = WebSocketStream::from_raw_socket(wire, Role::Server, Some(limits())).await;
        Self { socket, ahead: Bytes::new() }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.ahead.has_remaining() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => self.ahead = bytes,
                Some(Ok(Message::Text(_))) => {
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                Some(Ok(_)) => {}
                None | Some(Err(Error::ConnectionClosed)) => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(failure(error))),
            }
        }
        let length = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut socket = Pin::new(&mut self.socket);
        ready!(socket.as_mut().poll_ready(context)).map_err(failure)?;
        let piece = bytes.get(..LARGEST_PIECE).unwrap_or(bytes);
        let message = Message::Binary(Bytes::copy_from_slice(piece));
        socket.start_send(message).map_err(failure)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(failure)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context).map_err(failure)
    }
}

fn failure(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

/// The largest message sent: a frame of SPDY data with room to spare.
const LARGEST_PIECE: usize = 128 << 10;
