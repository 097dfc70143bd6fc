//! Noticing that files grow, or are put aside for others, many files at one descriptor.
//!
//! A file that is written a thousand times a second must not wake us as often: a watch tells
//! once, and is set again by whoever has read all there was. What happens between the reading and
//! the setting is told by nobody, so look once more after setting it.

use std::{path::Path, sync::Arc};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, Inotify, WatchDescriptor},
};

use super::{
    error::HostError,
    inotify::{self, Notices},
};

/// Where watches are set. Clones set them at the same descriptor, from any thread.
#[derive(Clone, Debug)]
pub struct TailWatch {
    inotify: Arc<Inotify>,
}

/// Where watches tell. There is one for each [`TailWatch`].
#[derive(Debug)]
pub struct Tidings {
    notices: Notices,
}

/// One watch, as long as it is set. Never used for another file later on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tail(WatchDescriptor);

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// These files were written, closed, moved or removed. Their watches are spent.
    Changed(Vec<Tail>),
    /// More happened than the kernel keeps: any file may have changed, any watch may be spent.
    Anything,
}

impl TailWatch {
    /// Opens the descriptor. To be called in a runtime.
    ///
    /// # Errors
    /// The kernel's limits on watches or descriptors are reached.
    pub fn open() -> Result<(Self, Tidings), HostError> {
        let opened = inotify::open();
        let (inotify, notices) =
            opened.map_err(|e| HostError::new("watch", Path::new("log files"), e))?;
        Ok((Self { inotify }, Tidings { notices }))
    }

    /// Sets a watch on the file that has this path now. Setting it again while it is set changes
    /// nothing.
    ///
    /// # Errors
    /// The file is absent, or the kernel's limit on watches is reached.
    pub fn set(&self, path: &Path) -> Result<Tail, HostError> {
        let set = self.inotify.add_watch(path, mask());
        set.map(Tail).map_err(|e| HostError::new("watch", path, e))
    }

    /// Takes a watch away, spent or not.
    pub fn take_away(&self, tail: Tail) {
        // A spent one is gone already.
        let _ = self.inotify.rm_watch(tail.0);
    }
}

impl Tidings {
    /// What has happened since the last return. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The descriptor is of no more use.
    pub async fn next(&mut self) -> Result<Told, HostError> {
        loop {
            let events = self.notices.next().await;
            let mut changed = Vec::new();
            for event in events.map_err(|e| HostError::new("watch", Path::new("log files"), e))? {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    return Ok(Told::Anything);
                }
                // That a watch is gone follows every message of it.
                if !event.mask.contains(AddWatchFlags::IN_IGNORED) {
                    changed.push(Tail(event.wd));
                }
            }
            if !changed.is_empty() {
                return Ok(Told::Changed(changed));
            }
        }
    }
}

/// Whether a failed [`TailWatch::set`] means that the kernel gives no more watches.
pub fn is_exhausted(error: &HostError) -> bool {
    let errno = error.source.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOSPC | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM))
}

/// Removal shows as a change of the link count while somebody still holds the file open.
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
