//! A client's connection, which usually wakes dockbridge only when the client sends bytes.
//!
//! Tokio's own sockets are registered with epoll for reading and writing. Each time the client reads an
//! answer, the socket becomes writable, so each answer would wake a thread again without need.
//!
//! dockbridge disconnects a client that sends nothing. Pings need HTTP/2, so they cannot find such a client.

use std::{
    io::{self, IoSlice, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net,
    time::{Sleep, sleep},
};
use tonic::transport::server::Connected;

use super::authority_filter::AuthorityFilter;
use crate::host::readiness::register;

/// A socket that is registered for reading. After the socket's send buffer was full for the first time, the
/// socket is also registered for writing. Reads and writes must come from the same task.
#[derive(Debug)]
pub(super) struct Connection {
    /// `None` only if the socket could not be registered for writing. The connection then counts as closed.
    socket: Option<AsyncFd<UnixStream>>,
    has_been_full: bool,
    filter: AuthorityFilter,
    opening: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// Wraps a new connection. Reads fail if the client does not send the HTTP/2 preface within `time_limit`.
    pub(super) fn over(stream: net::UnixStream, time_limit: Duration) -> io::Result<Self> {
        let socket = register(stream.into_std()?, Interest::READABLE)?;
        let opening = Some(Box::pin(sleep(time_limit)));
        let filter = AuthorityFilter::default();
        Ok(Self { socket: Some(socket), has_been_full: false, filter, opening })
    }

    fn socket(&self) -> io::Result<&AsyncFd<UnixStream>> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn try_write(&self, turn: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let socket = self.socket()?;
        if !self.has_been_full {
            return Poll::Ready(socket.get_ref().write_vectored(pieces));
        }
        loop {
            let mut writable = ready!(socket.poll_write_ready(turn))?;
            if let Ok(done) = writable.try_io(|_| socket.get_ref().write_vectored(pieces)) {
                return Poll::Ready(done);
            }
        }
    }

    /// Registers the socket also for writing, so that the kernel reports free space in the send buffer.
    fn watch_for_room(&mut self, turn: &Context<'_>) -> io::Result<()> {
        // A task that waits to read uses the old registration of the socket, so it must register again.
        turn.waker().wake_by_ref();
        if let Some(socket) = self.socket.take().map(AsyncFd::into_inner) {
            self.has_been_full = true;
            self.socket = Some(register(socket, Interest::READABLE | Interest::WRITABLE)?);
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
        if let Some(opening) = &mut this.opening
            && opening.as_mut().poll(turn).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let socket = this.socket()?;
        loop {
            let mut ready = ready!(socket.poll_read_ready(turn))?;
            let free = buffer.initialize_unfilled();
            let wanted = free.len();
            match ready.try_io(|_| socket.get_ref().read(free)) {
                Ok(Ok(read)) => {
                    // The read did not fill the buffer, so the kernel will report new bytes.
                    if 0 < read && read < wanted {
                        ready.clear_ready();
                    }
                    this.filter.overwrite(free.get_mut(..read).unwrap_or_default());
                    this.opening.take_if(|_| this.filter.has_begun());
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
        loop {
            match ready!(this.try_write(turn, pieces)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    this.watch_for_room(turn)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _turn: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket()?.get_ref().shutdown(Shutdown::Write))
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[cfg(test)]
mod tests;
