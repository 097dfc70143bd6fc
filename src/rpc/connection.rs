//! A client's connection, which usually wakes dockbridge only when the client sends bytes.
//!
//! Tokio's own sockets are always registered with epoll for writing as well. With them, the kernel would wake a thread
//! without need each time the client reads an answer and so makes the socket writable.
//!
//! dockbridge disconnects a client that does not send the HTTP/2 preface in time: pings work only after the preface.

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
    /// `None` only if the socket could not be registered for writing.
    socket: Option<AsyncFd<UnixStream>>,
    is_registered_for_writing: bool,
    filter: AuthorityFilter,
    preface_timer: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// Reads fail if the client does not send the HTTP/2 preface within `preface_timeout`.
    pub(super) fn new(stream: net::UnixStream, preface_timeout: Duration) -> io::Result<Self> {
        let socket = register(stream.into_std()?, Interest::READABLE)?;
        let preface_timer = Some(Box::pin(sleep(preface_timeout)));
        let filter = AuthorityFilter::default();
        Ok(Self { socket: Some(socket), is_registered_for_writing: false, filter, preface_timer })
    }

    fn socket(&self) -> io::Result<&AsyncFd<UnixStream>> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn try_write(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = self.socket()?;
        if !self.is_registered_for_writing {
            return Poll::Ready(socket.get_ref().write_vectored(pieces));
        }
        loop {
            let mut writable = ready!(socket.poll_write_ready(context))?;
            if let Ok(done) = writable.try_io(|_| socket.get_ref().write_vectored(pieces)) {
                return Poll::Ready(done);
            }
        }
    }

    fn register_for_writing(&mut self, context: &Context<'_>) -> io::Result<()> {
        // The task may be waiting to read on the registration that ends here, so it must poll the new one.
        context.waker().wake_by_ref();
        if let Some(socket) = self.socket.take().map(AsyncFd::into_inner) {
            self.is_registered_for_writing = true;
            self.socket = Some(register(socket, Interest::READABLE | Interest::WRITABLE)?);
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(preface_timer) = &mut this.preface_timer
            && preface_timer.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let socket = this.socket()?;
        loop {
            let mut ready = ready!(socket.poll_read_ready(context))?;
            let free = buffer.initialize_unfilled();
            let wanted = free.len();
            match ready.try_io(|_| socket.get_ref().read(free)) {
                Ok(Ok(read)) => {
                    // The read did not fill the buffer, so the kernel will report new bytes.
                    if 0 < read && read < wanted {
                        ready.clear_ready();
                    }
                    this.filter.overwrite(free.get_mut(..read).unwrap_or_default());
                    this.preface_timer.take_if(|_| this.filter.has_begun());
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(piece)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            match ready!(this.try_write(context, pieces)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    this.register_for_writing(context)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
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
        Poll::Ready(self.socket()?.get_ref().shutdown(Shutdown::Write))
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[cfg(test)]
mod tests;
