//! Watches log files for growth and rotation, many files with one inotify descriptor.
//!
//! A file that is written a thousand times a second must not wake dockbridge as often. So a watch reports
//! one event, and is set again after everything was read. Changes between the read and the new watch are
//! not reported, so the file must be read once more after the watch is set.

use std::{path::Path, sync::Arc};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, Inotify, WatchDescriptor},
};

use super::{
    error::{HostError, OrCannot as _},
    inotify::{self, Notifications},
};

/// Sets watches. Clones use the same descriptor, from any thread.
#[derive(Clone, Debug)]
pub struct TailWatch {
    inotify: Arc<Inotify>,
}

/// The events of a [`TailWatch`]. There is only one receiver.
#[derive(Debug)]
pub struct TailEvents {
    notices: Notifications,
}

/// A watch. Its id is never reused for another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WatchedFile(WatchDescriptor);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEvent {
    /// These files were written, closed, moved or removed. Their watches are gone.
    Changed(Vec<WatchedFile>),
    /// The kernel's queue overflowed. Any file may have changed, and any watch may be gone.
    Anything,
}

impl TailWatch {
    /// Opens the descriptor. Must be called inside a runtime.
    ///
    /// # Errors
    /// The kernel's limits on watches or descriptors are reached.
    pub fn open() -> Result<(Self, TailEvents), HostError> {
        let opened = inotify::open();
        let (inotify, notices) = opened.or_cannot("watch", Path::new("log files"))?;
        Ok((Self { inotify }, TailEvents { notices }))
    }

    /// Sets a watch on the file that has this path now. If the watch is already set, this changes nothing.
    ///
    /// # Errors
    /// The file does not exist, or the kernel's limit on watches is reached.
    pub fn set(&self, path: &Path) -> Result<WatchedFile, HostError> {
        self.inotify.add_watch(path, mask()).map(WatchedFile).or_cannot("watch", path)
    }

    /// Removes a watch, even if it has reported.
    pub fn remove(&self, tail: WatchedFile) {
        // A watch that has reported no longer exists.
        let _ = self.inotify.rm_watch(tail.0);
    }
}

impl TailEvents {
    /// The events since the last return. Dropping the future loses nothing. Fails if the descriptor is unusable.
    pub async fn next(&mut self) -> Result<TailEvent, HostError> {
        loop {
            let events = self.notices.next().await;
            let mut changed = Vec::new();
            for event in events.or_cannot("watch", Path::new("log files"))? {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    return Ok(TailEvent::Anything);
                }
                // The event for the removal of a watch follows the watch's own event.
                if !event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    changed.push(WatchedFile(event.wd));
                }
            }
            if !changed.is_empty() {
                return Ok(TailEvent::Changed(changed));
            }
        }
    }
}

/// Whether a failed [`TailWatch::set`] means that the kernel's limit on watches is reached.
pub fn is_exhausted(error: &HostError) -> bool {
    let errno = error.source.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOSPC | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM))
}

/// If the file is open elsewhere, its removal is reported as a change of the link count.
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
