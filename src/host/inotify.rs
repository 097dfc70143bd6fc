//! inotify for the async runtime.

use std::{io, sync::Arc};

use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::io::Interest;

use super::readiness::Registered;

/// Opens an inotify descriptor. Must be called inside a runtime.
///
/// # Errors
/// The kernel's limits on descriptors of this kind are reached.
pub(super) fn open() -> io::Result<(Arc<Inotify>, Notifications)> {
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let inotify = Arc::new(Inotify::init(flags)?);
    let notices = Notifications(Registered::new(Arc::clone(&inotify), Interest::READABLE)?);
    Ok((inotify, notices))
}

/// The events of an inotify descriptor.
#[derive(Debug)]
pub(super) struct Notifications(Registered<Arc<Inotify>>);

impl Notifications {
    /// The next events, at least one. Dropping the future loses none.
    ///
    /// # Errors
    /// The descriptor can no longer be used.
    pub(super) async fn next(&mut self) -> io::Result<Vec<InotifyEvent>> {
        loop {
            let mut ready = self.0.readiness().readable().await?;
            if let Ok(events) = ready.try_io(|_| Ok(self.0.get().read_events()?)) {
                return events;
            }
        }
    }
}
