//! Turns the binary messages of a WebSocket into a stream of bytes for a tunnelled SPDY connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::frame::{Decoder, Frame, Opcode, put_head};
use crate::streaming::{client_connection::ClientConnection, inbox::LARGEST_PIECE};

/// The stream of bytes inside the binary messages of a WebSocket. Message boundaries have no meaning.
#[derive(Debug)]
pub struct Tunnel {
    io: ClientConnection,
    decoder: Decoder,
    input: BytesMut,
    buffered: Bytes,
    unsent: BytesMut,
    is_closed: bool,
}

impl Tunnel {
    /// Uses `wire`, whose HTTP upgrade is complete, as a WebSocket.
    pub fn open(wire: ClientConnection) -> Self {
        let (input, unsent) = (BytesMut::new(), BytesMut::new());
        let (decoder, buffered) = (Decoder::default(), Bytes::new());
        Self { io: wire, decoder, input, buffered, unsent, is_closed: false }
    }

    fn put(&mut self, opcode: Opcode, payload: &[u8]) {
        put_head(opcode, payload.len(), &mut self.unsent);
        self.unsent.extend_from_slice(payload);
    }

    /// Queues a close frame, unless one was queued before. A close frame is the last frame that dockbridge sends.
    fn close(&mut self, payload: &[u8]) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.put(Opcode::Close, payload);
        }
    }

    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent.has_remaining() {
            ready!(poll_write_buf(Pin::new(&mut self.io), context, &mut self.unsent))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while !this.buffered.has_remaining() {
            match this.decoder.next(&mut this.input) {
                Ok(Some(Frame::Data { is_text: false, bytes, .. })) => this.buffered = bytes,
                Ok(Some(Frame::Ping(bytes)))
                    if !this.is_closed && this.unsent.len() < LARGEST_PIECE =>
                {
                    this.put(Opcode::Pong, &bytes);
                }
                Ok(Some(Frame::Ping(_))) => {}
                Ok(Some(Frame::Close(payload))) => {
                    this.close(&payload);
                    let _ = this.poll_unsent(context);
                    return Poll::Ready(Ok(()));
                }
                Ok(Some(Frame::Data { is_text: true, .. })) | Err(_) => {
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                Ok(None) => {
                    // Even if a pong cannot be written, dockbridge must still read the client's data.
                    let _ = this.poll_unsent(context);
                    this.buffered = Bytes::new();
                    this.input.reserve(LARGEST_PIECE);
                    if ready!(poll_read_buf(Pin::new(&mut this.io), context, &mut this.input))? == 0
                    {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
        let length = this.buffered.len().min(buffer.remaining());
        buffer.put_slice(&this.buffered.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(context))?;
        if self.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let piece = bytes.get(..LARGEST_PIECE).unwrap_or(bytes);
        self.put(Opcode::Binary, piece);
        let _ = self.poll_unsent(context)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_unsent(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close(&[]);
        ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
