//! A caller's connection, spoken over with as few system calls and wake-ups as its answers need:
//! nearly all of what a small answer costs is those.
//!
//! HTTP/2 writes an answer in pieces (head, each 16 KiB of the message, trailers) and flushes each.
//! Here they go to a task of the connection's own, which runs when HTTP/2's has had its turn and
//! sends them as one. And nobody is woken because the caller has read what was sent, unless
//! something waits for that.

use std::{
    io::{self, IoSlice, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::{
    io::{
        AsyncRead, AsyncReadExt as _, AsyncWrite, DuplexStream, Interest, ReadBuf, duplex,
        unix::AsyncFd,
    },
    net,
};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::server::Connected;

use crate::host::readiness::{Watched, watch};

/// A connection that sends by itself: a flush ends nothing, a shutdown ends when all was sent.
#[derive(Debug)]
pub(super) struct Connection {
    incoming: AsyncFd<Watched<UnixStream>>,
    outgoing: DuplexStream,
    /// None once a shutdown was told how it ended.
    sending: Option<AbortOnDropHandle<io::Result<()>>>,
}

impl Connection {
    /// Takes over a connection that was just made.
    ///
    /// # Errors
    /// The runtime cannot watch it, or no descriptor is left.
    pub(super) fn over(stream: net::UnixStream) -> io::Result<Self> {
        let incoming = stream.into_std()?;
        let socket = incoming.try_clone()?;
        let (outgoing, held) = duplex(HELD_MOST);
        let incoming = watch(incoming, Interest::READABLE)?;
        let sending = Some(AbortOnDropHandle::new(tokio::spawn(send(held, socket))));
        Ok(Self { incoming, outgoing, sending })
    }
}

/// Sends what is `held` until no more comes; then the caller is told so.
async fn send(mut held: DuplexStream, mut to: UnixStream) -> io::Result<()> {
    let mut piece = BytesMut::with_capacity(PIECE_MOST);
    while held.read_buf(&mut piece).await? > 0 {
        while !piece.is_empty() {
            match to.write(&piece) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => piece.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to = room(to).await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // All of it was sent: its place is free again.
        piece.reserve(PIECE_MOST);
    }
    to.shutdown(Shutdown::Write)
}

/// Waits until the kernel has room for more. Only then it watches this side.
async fn room(full: UnixStream) -> io::Result<UnixStream> {
    let watched = watch(full, Interest::WRITABLE)?;
    drop(watched.writable().await?);
    let Watched(socket) = watched.into_inner();
    Ok(socket)
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.incoming.poll_read_ready(turn))?;
            let free = buffer.initialize_unfilled();
            let wanted = free.len();
            match ready.try_io(|socket| (&socket.get_ref().0).read(free)) {
                Ok(Ok(read)) => {
                    // Less than there was place for: the kernel will tell when more has come.
                    if 0 < read && read < wanted {
                        ready.clear_ready();
                    }
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_nothing_there) => {}
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.outgoing).poll_write(turn, piece)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.outgoing).poll_write_vectored(turn, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.outgoing.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, _turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.outgoing).poll_shutdown(turn))?;
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        let ended = ready!(Pin::new(sending).poll(turn));
        self.sending = None;
        Poll::Ready(ended?)
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

/// Who writes is held back while so much waits to be sent.
const HELD_MOST: usize = 64 * 1024;
/// What is sent at once.
const PIECE_MOST: usize = 32 * 1024;

#[cfg(test)]
mod tests;
