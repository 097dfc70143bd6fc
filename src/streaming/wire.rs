//! A client's connection after HTTP: the socket, and the bytes of it that were read too early.

use std::{
    io,
    net::Shutdown,
    os::fd::AsFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

/// A connection that is no longer HTTP.
#[derive(Debug)]
pub struct Wire {
    ahead: Bytes,
    stream: Arc<TcpStream>,
}

/// Notices that the client has left even while nothing is read.
#[derive(Clone, Debug)]
pub struct Watch(Arc<TcpStream>);

impl Wire {
    /// The connection behind `stream`, of which `ahead` was read already.
    pub fn new(stream: TcpStream, ahead: Bytes) -> Self {
        Self { ahead, stream: Arc::new(stream) }
    }

    /// A watch over it.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.stream))
    }
}

impl Watch {
    /// Resolves when the client sends nothing more, or the connection broke.
    pub async fn left(&self) {
        // Priority stands for "closed for reading" without "there is something to read"; an
        // error of the socket is an end as well.
        drop(self.0.ready(Interest::PRIORITY | Interest::ERROR).await);
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.has_remaining() {
            let length = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(&self.ahead.split_to(length));
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match self.stream.try_write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket is shared with the watch; ending one direction concerns all its handles.
        let socket = self.stream.as_fd().try_clone_to_owned().map(std::net::TcpStream::from);
        Poll::Ready(socket.and_then(|socket| socket.shutdown(Shutdown::Write)))
    }
}
