//! inotify for the async runtime.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::io::{Interest, unix::AsyncFd};

use super::readiness::register;

/// Opens an inotify descriptor. Must be called inside a tokio runtime.
///
/// # Errors
/// The kernel's limit of inotify descriptors is reached.
pub(super) fn open() -> io::Result<(Arc<Inotify>, Notifications)> {
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let inotify = Arc::new(Inotify::init(flags)?);
    let readiness = register(inotify.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
    Ok((Arc::clone(&inotify), Notifications { inotify, readiness }))
}

/// The events of an inotify descriptor.
#[derive(Debug)]
pub(super) struct Notifications {
    inotify: Arc<Inotify>,
    readiness: AsyncFd<OwnedFd>,
}

impl Notifications {
    /// The next events, at least one. Dropping the returned future loses no event.
    ///
    /// # Errors
    /// The descriptor can no longer be used.
    pub(super) async fn next(&mut self) -> io::Result<Vec<InotifyEvent>> {
        loop {
            let mut ready = self.readiness.readable().await?;
            if let Ok(events) = ready.try_io(|_| Ok(self.inotify.read_events()?)) {
                return events;
            }
        }
    }
}
