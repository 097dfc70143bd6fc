//! A client's connection after the HTTP upgrade: the socket, and bytes that the HTTP server has already read.

use std::{
    io,
    net::Shutdown,
    os::fd::AsFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Instant, sleep},
};

use crate::host::socket;

/// A client's connection, which no longer uses HTTP.
#[derive(Debug)]
pub struct ClientConnection {
    buffered: Bytes,
    socket: Arc<SocketState>,
}

/// Notices that the client has disconnected, or that no bytes move, even while no task reads from the connection.
#[derive(Clone, Debug)]
pub struct DisconnectWatch(Arc<SocketState>);

#[derive(Debug)]
struct SocketState {
    stream: TcpStream,
    read: AtomicU64,
    written: AtomicU64,
}

impl ClientConnection {
    /// Wraps `stream`. `buffered` has the bytes that the HTTP server has already read.
    pub fn new(stream: TcpStream, buffered: Bytes) -> Self {
        Self {
            buffered,
            socket: Arc::new(SocketState {
                stream,
                read: AtomicU64::new(0),
                written: AtomicU64::new(0),
            }),
        }
    }

    /// Returns a [`DisconnectWatch`] of this connection.
    pub fn watch(&self) -> DisconnectWatch {
        DisconnectWatch(Arc::clone(&self.socket))
    }
}

impl DisconnectWatch {
    /// Resolves when the client has closed its side, or the connection broke.
    pub async fn disconnected(&self) {
        // In tokio, PRIORITY reports that the socket is closed for reading, without reporting that it is
        // readable. ERROR reports a broken connection.
        drop(self.0.stream.ready(Interest::PRIORITY | Interest::ERROR).await);
    }

    /// Resolves once dockbridge has read no byte from the client, and delivered none, for `time_limit`.
    pub async fn idle(&self, time_limit: Duration) {
        unchanged(time_limit, || self.transferred()).await;
    }

    fn transferred(&self) -> u64 {
        self.0.read.load(Ordering::Acquire) + self.delivered()
    }

    /// Closes the connection for all of its readers and writers.
    pub fn close(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// How many bytes the client's host has received.
    fn delivered(&self) -> u64 {
        let written = self.0.written.load(Ordering::Acquire);
        written.saturating_sub(socket::unsent_bytes(&self.0.stream).unwrap_or_default())
    }

    /// Resolves once the client has received nothing for `time_limit`, even if dockbridge has sent nothing.
    pub async fn stalled(&self, time_limit: Duration) {
        unchanged(time_limit, || self.delivered()).await;
    }
}

impl AsyncRead for ClientConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.buffered.has_remaining() {
            let length = self.buffered.len().min(buffer.remaining());
            buffer.put_slice(&self.buffered.split_to(length));
            if self.buffered.is_empty() {
                // Frees the memory of the buffer.
                self.buffered = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(self.socket.stream.poll_read_ready(context))?;
            match self.socket.stream.try_read_buf(buffer) {
                Ok(count) => {
                    self.socket.read.fetch_add(count as u64, Ordering::AcqRel);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for ClientConnection {
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
            ready!(self.socket.stream.poll_write_ready(context))?;
            match self.socket.stream.try_write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    let count = written.as_ref().map_or(0, |count| *count as u64);
                    self.socket.written.fetch_add(count, Ordering::AcqRel);
                    return Poll::Ready(written);
                }
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
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

impl SocketState {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let socket = self.stream.as_fd().try_clone_to_owned().map(std::net::TcpStream::from);
        socket.and_then(|socket| socket.shutdown(how))
    }
}

/// How long a stream may be idle, as in containerd and in kubelet's own server.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Resolves once the result of `transferred` has not changed for `time_limit`.
pub(super) async fn unchanged(time_limit: Duration, transferred: impl Fn() -> u64) {
    let (mut before, mut since) = (transferred(), Instant::now());
    while since.elapsed() < time_limit {
        sleep(time_limit / IDLE_CHECKS).await;
        let now = transferred();
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}

/// How many times dockbridge checks a connection within the time limit.
const IDLE_CHECKS: u32 = 8;

#[cfg(test)]
mod tests;
