//! The kernel's notices about files, as something the runtime can wait for.

use std::{io, sync::Arc};

use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::io::{Interest, unix::AsyncFd};

use super::readiness::{Watched, watch};

/// Opens a descriptor for notices. To be called in a runtime.
///
/// # Errors
/// The kernel's limits on descriptors of this kind are reached.
pub(super) fn open() -> io::Result<(Arc<Inotify>, Notices)> {
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let inotify = Arc::new(Inotify::init(flags)?);
    let notices = Notices(watch(Arc::clone(&inotify), Interest::READABLE)?);
    Ok((inotify, notices))
}

/// Where notices come out.
#[derive(Debug)]
pub(super) struct Notices(AsyncFd<Watched<Arc<Inotify>>>);

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
