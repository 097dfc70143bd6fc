//! A caller's connection, spoken over with as few system calls and wake-ups as its answers need:
//! nearly all of what a small answer costs is those.
//!
//! HTTP/2 writes an answer in pieces (head, each 16 KiB of the message, trailers) and flushes each;
//! here all that one turn of the connection's task writes leaves in one piece, at the beginning of
//! the next turn, which comes before the thread rests. And nobody is woken because the caller has
//! read what was sent, unless something waits for that.

use std::{
    io::{self, IoSlice, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net,
    task::yield_now,
};
use tonic::transport::server::Connected;

use crate::host::readiness::{Watched, watch};

/// A connection of which each end of a turn sends what was written.
///
/// A flush promises only that: what was written leaves without anybody's doing. Whoever writes
/// must go on reading, as HTTP/2 does. Backpressure begins at [`HELD_MOST`] bytes.
#[derive(Debug)]
pub(super) struct Connection {
    /// None only when it could not be registered anew: then it is as good as closed.
    socket: Option<AsyncFd<Watched<UnixStream>>>,
    /// Whether the kernel was ever asked to tell when there is room.
    has_been_full: bool,
    held: BytesMut,
}

impl Connection {
    /// Takes over a connection that was just made.
    ///
    /// # Errors
    /// The runtime cannot watch it.
    pub(super) fn over(stream: net::UnixStream) -> io::Result<Self> {
        let socket = watch(stream.into_std()?, Interest::READABLE)?;
        Ok(Self { socket: Some(socket), has_been_full: false, held: BytesMut::new() })
    }

    fn socket(&self) -> io::Result<&AsyncFd<Watched<UnixStream>>> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Keeps what is written until the next turn, which is asked for with the first of it.
    fn hold(&mut self, pieces: &[IoSlice<'_>], turn: &mut Context<'_>) -> usize {
        if self.held.is_empty() {
            // Polled once, it has the task's turn repeated before the thread rests. Waking the
            // task would do so too, and another thread besides, to share the work.
            let _ = pin!(yield_now()).poll(turn);
        }
        let before = self.held.len();
        pieces.iter().for_each(|piece| self.held.extend_from_slice(piece));
        self.held.len() - before
    }

    /// Sends what is held, as far as there is room.
    fn poll_send(&mut self, turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = if self.has_been_full {
                let mut room = ready!(self.socket()?.poll_write_ready(turn))?;
                room.try_io(|socket| (&socket.get_ref().0).write(&self.held))
                    .unwrap_or_else(|_full| Err(io::ErrorKind::WouldBlock.into()))
            } else {
                (&self.socket()?.get_ref().0).write(&self.held)
            };
            match sent {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(sent) => self.held.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.watch_for_room()?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if self.held.capacity() > KEPT_MOST {
            self.held = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    /// From now on the kernel tells of room, too.
    fn watch_for_room(&mut self) -> io::Result<()> {
        if !self.has_been_full {
            self.has_been_full = true;
            if let Some(Watched(socket)) = self.socket.take().map(AsyncFd::into_inner) {
                self.socket = Some(watch(socket, Interest::READABLE | Interest::WRITABLE)?);
            }
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Every turn of HTTP/2 reads, and this is the beginning of one. Without room it is
        // repeated when there is some.
        if let Poll::Ready(Err(error)) = this.poll_send(turn) {
            return Poll::Ready(Err(error));
        }
        let socket = this.socket()?;
        loop {
            let mut ready = ready!(socket.poll_read_ready(turn))?;
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
        self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(turn, &[IoSlice::new(piece)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        turn: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.held.len() >= HELD_MOST {
            ready!(this.poll_send(turn))?;
        }
        Poll::Ready(Ok(this.hold(pieces, turn)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(turn))?;
        match this.socket()?.get_ref().0.shutdown(Shutdown::Write) {
            // The caller has gone already.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

/// With this much held nothing more is taken before something was sent.
const HELD_MOST: usize = 64 * 1024;
/// What a connection keeps of memory while it has nothing to send.
const KEPT_MOST: usize = 16 * 1024;

#[cfg(test)]
mod tests;
