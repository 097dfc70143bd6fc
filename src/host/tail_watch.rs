//! Watches log files for growth and rotation, many files with one inotify descriptor.
//!
//! A file that is written a thousand times a second must not wake dockbridge as often. So a watch ends with
//! its first event. The caller reads the file to its end, sets a new watch, and then reads the file again,
//! because no event reports a change between the first read and the new watch.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    error::{HostError, OrCannot as _},
    readiness::register,
};

/// Sets watches. Clones of a `TailWatch` use the same inotify descriptor, from any thread.
#[derive(Clone, Debug)]
pub struct TailWatch {
    inotify: Arc<Inotify>,
}

/// The events of a [`TailWatch`]. Only one `TailEvents` exists for each inotify descriptor.
#[derive(Debug)]
pub struct TailEvents {
    inotify: Arc<Inotify>,
    readiness: AsyncFd<OwnedFd>,
}

/// The id of a watch. The kernel numbers watches upwards, so no other file soon gets the id of an ended watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchedFile(WatchDescriptor);

/// What happened to the watched files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEvent {
    /// These files were written, closed after writing, moved or removed, or their attributes changed. The watches
    /// of the changed files no longer exist.
    Changed(Vec<WatchedFile>),
    /// The kernel's queue of events overflowed: any file may have changed, and any watch may no longer exist.
    Anything,
}

impl TailWatch {
    /// Opens an inotify descriptor. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The kernel's limit of inotify descriptors is reached.
    pub fn open() -> Result<(Self, TailEvents), HostError> {
        let events = TailEvents::open().or_cannot("watch", Path::new("log files"))?;
        Ok((Self { inotify: Arc::clone(&events.inotify) }, events))
    }

    /// Sets a watch on the file that has this path now. If the file already has a watch, returns that watch.
    ///
    /// # Errors
    /// The file does not exist, or the kernel's limit on watches is reached.
    pub fn set(&self, path: &Path) -> Result<WatchedFile, HostError> {
        self.inotify.add_watch(path, mask()).map(WatchedFile).or_cannot("watch", path)
    }

    /// Removes a watch. Does nothing if the watch has already reported an event.
    pub fn remove(&self, tail: WatchedFile) {
        let _ = self.inotify.rm_watch(tail.0);
    }
}

impl TailEvents {
    fn open() -> io::Result<Self> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let inotify = Arc::new(Inotify::init(flags)?);
        let readiness = register(inotify.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
        Ok(Self { inotify, readiness })
    }

    /// Waits for at least one event. Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<TailEvent, HostError> {
        loop {
            let events = self.notices().await;
            let mut changed = Vec::new();
            for event in events.or_cannot("watch", Path::new("log files"))? {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    return Ok(TailEvent::Anything);
                }
                // IN_IGNORED only reports that a watch has ended.
                if !event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    changed.push(WatchedFile(event.wd));
                }
            }
            if !changed.is_empty() {
                return Ok(TailEvent::Changed(changed));
            }
        }
    }

    /// The next events of the inotify descriptor, at least one.
    async fn notices(&self) -> io::Result<Vec<InotifyEvent>> {
        loop {
            let mut ready = self.readiness.readable().await?;
            if let Ok(events) = ready.try_io(|_| Ok(self.inotify.read_events()?)) {
                return events;
            }
        }
    }
}

/// Whether [`TailWatch::set`] failed because a limit of the kernel is reached or memory is short.
pub fn is_exhausted(error: &HostError) -> bool {
    let errno = error.source.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOSPC | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM))
}

/// If a file is still open, the kernel reports its removal only as a change of the link count (IN_ATTRIB).
fn mask() -> AddWatchFlags {
    AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_ONESHOT
}

#[cfg(test)]
mod tests;
