//! Watches directories for changes of their content, including their creation and removal.
//!
//! The kernel watches inodes, not paths. For every path, the directory itself and the nearest existing
//! parent are watched, and all watches are set again after every event. So a directory that is created
//! later, removed, moved, or reached through a changed symbolic link is handled in the same way: something
//! changed, and callers must read it again.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, Inotify, InotifyEvent, WatchDescriptor},
};

use super::{
    error::{HostError, OrCannot as _},
    inotify::{self, Notifications},
};

/// Watches a fixed set of directories.
#[derive(Debug)]
pub struct DirectoryWatch {
    inotify: Arc<Inotify>,
    notices: Notifications,
    directories: Vec<PathBuf>,
    armed: HashMap<WatchDescriptor, Vec<Interest>>,
}

impl DirectoryWatch {
    /// Starts watching. Changes from now on are noticed. Must be called inside a runtime.
    ///
    /// # Errors
    /// The kernel's limits on watches are reached. Read the directories periodically instead.
    pub fn new(directories: Vec<PathBuf>) -> Result<Self, HostError> {
        let opened = inotify::open();
        let (inotify, notices) = opened.or_cannot("watch", &describe(&directories))?;
        let mut watch = Self { inotify, notices, directories, armed: HashMap::new() };
        watch.arm()?;
        Ok(watch)
    }

    /// Returns when something has changed since the last return (or the start). The caller must then read
    /// the directories. Later changes are reported by the next call. The future can be dropped.
    ///
    /// # Errors
    /// As [`DirectoryWatch::new`]; the watch can no longer be used.
    pub async fn changed(&mut self) -> Result<(), HostError> {
        loop {
            let events = self.notices.next().await;
            let events = events.or_cannot("watch", &describe(&self.directories))?;
            if events.iter().any(|event| self.concerns(event)) {
                return self.arm();
            }
        }
    }

    fn concerns(&self, event: &InotifyEvent) -> bool {
        let lost = event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
        let interests = self.armed.get(&event.wd).map_or(&[][..], Vec::as_slice);
        lost || interests.iter().any(|interest| match (interest, &event.name) {
            (Interest::Anything, _) | (_, None) => true,
            (Interest::Entry(wanted), Some(name)) => wanted == name,
        })
    }

    fn arm(&mut self) -> Result<(), HostError> {
        let mut armed = HashMap::new();
        for directory in &self.directories {
            // Checks again, because a directory created between the check and the watch above it would be
            // missed.
            while !self.arm_one(directory, &mut armed)? && directory.is_dir() {}
        }
        for stale in self.armed.keys().filter(|old| !armed.contains_key(old)) {
            // Watches of removed directories no longer exist.
            let _ = self.inotify.rm_watch(*stale);
        }
        self.armed = armed;
        Ok(())
    }

    /// Whether the directory itself exists and is watched.
    fn arm_one(
        &self,
        directory: &Path,
        armed: &mut HashMap<WatchDescriptor, Vec<Interest>>,
    ) -> Result<bool, HostError> {
        let (mut direct, mut places) = (false, 0);
        let mut interest = Interest::Anything;
        for place in directory.ancestors() {
            match self.inotify.add_watch(place, mask()) {
                Ok(descriptor) => {
                    direct |= place == directory;
                    places += 1;
                    armed.entry(descriptor).or_default().push(interest);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                // If the parent cannot be read, only the directory's removal and return are not noticed.
                Err(Errno::EACCES) if direct => {}
                Err(e) => return Err(HostError::new("watch", place, e)),
            }
            if places == PLACES {
                break;
            }
            interest = Interest::Entry(place.file_name().unwrap_or_default().to_owned());
        }
        Ok(direct)
    }
}

#[derive(Debug)]
enum Interest {
    Anything,
    Entry(OsString),
}

fn describe(directories: &[PathBuf]) -> PathBuf {
    directories.first().cloned().unwrap_or_default()
}

/// A file is reported when it was closed after writing, was moved, or its permissions changed.
fn mask() -> AddWatchFlags {
    AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR
}

/// The directory itself and the one above it, or the two nearest existing ones above it.
const PLACES: u32 = 2;

#[cfg(test)]
mod tests;
