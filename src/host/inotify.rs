//! The kernel's notices about files, as something the runtime can wait for.

use std::{io, sync::Arc};

use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::io::Interest;

use super::readiness::Watched;

/// Opens a descriptor for notices. To be called in a runtime.
///
/// # Errors
/// The kernel's limits on descriptors of this kind are reached.
pub(super) fn open() -> io::Result<(Arc<Inotify>, Notices)> {
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let inotify = Arc::new(Inotify::init(flags)?);
    let notices = Notices(Watched::new(Arc::clone(&inotify), Interest::READABLE)?);
    Ok((inotify, notices))
}

/// Where notices come out.
#[derive(Debug)]
pub(super) struct Notices(Watched<Arc<Inotify>>);

impl Notices {
    /// The next ones; at least one. Dropping the future loses none.
    ///
    /// # Errors
    /// The descriptor is of no more use.
    pub(super) async fn next(&mut self) -> io::Result<Vec<InotifyEvent>> {
        loop {
            let mut ready = self.0.readiness().readable().await?;
            if let Ok(events) = ready.try_io(|_| Ok(self.0.get().read_events()?)) {
                return events;
            }
        }
    }
}
