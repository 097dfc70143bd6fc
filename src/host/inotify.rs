//! The kernel's notices about files, as something the runtime can wait for.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::Arc,
};

use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::io::unix::AsyncFd;

/// Opens a descriptor for notices. To be called in a runtime.
///
/// # Errors
/// The kernel's limits on descriptors of this kind are reached.
pub(super) fn open() -> io::Result<(Arc<Inotify>, Notices)> {
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let inotify = Arc::new(Inotify::init(flags)?);
    let notices = Notices(register(Handle(Arc::clone(&inotify)))?);
    Ok((inotify, notices))
}

/// Where notices come out.
#[derive(Debug)]
pub(super) struct Notices(AsyncFd<Handle>);

impl Notices {
    /// The next ones; at least one. Dropping the future loses none.
    ///
    /// # Errors
    /// The descriptor is of no more use.
    pub(super) async fn next(&mut self) -> io::Result<Vec<InotifyEvent>> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(events) = ready.try_io(|handle| Ok(handle.get_ref().0.read_events()?)) {
                return events;
            }
        }
    }
}

#[derive(Debug)]
struct Handle(Arc<Inotify>);

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[allow(unsafe_code, reason = "the runtime trusts its caller to keep the descriptor")]
fn register(handle: Handle) -> io::Result<AsyncFd<Handle>> {
    // SAFETY: the handle keeps its descriptor open, never changes it, and moves into the
    // registration.
    Ok(unsafe { AsyncFd::register_with_interest(handle, tokio::io::Interest::READABLE) }?)
}
