//! Noticing that the content of directories has changed, including that they come and go.
//!
//! The kernel watches inodes, not paths. For every path the directory itself and the nearest
//! place above it that exists are watched, and after every event all watches are set again. So
//! a directory made later, removed, moved away, or reached through a symbolic link that is
//! turned, is all the same to the caller: something changed, look again.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use tokio::io::unix::AsyncFd;

use super::error::HostError;

/// Watches over a fixed set of directories.
#[derive(Debug)]
pub struct Watch {
    handle: AsyncFd<Handle>,
    directories: Vec<PathBuf>,
    armed: HashMap<WatchDescriptor, Vec<Interest>>,
}

impl Watch {
    /// Begins watching; changes from now on are noticed. To be called in a runtime.
    ///
    /// # Errors
    /// The kernel's limits on watches are reached. Look again from time to time instead.
    pub fn new(directories: Vec<PathBuf>) -> Result<Self, HostError> {
        let fail = |e: io::Error| HostError::new("watch", &describe(&directories), e);
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let inotify = Inotify::init(flags).map_err(|e| fail(e.into()))?;
        let handle = register(Handle(inotify)).map_err(fail)?;
        let mut watch = Self { handle, directories, armed: HashMap::new() };
        watch.arm()?;
        Ok(watch)
    }

    /// Returns when something has changed since the last return (or the start). Look at the
    /// directories after it: what changes from then on is reported by the next call. Dropping
    /// the future loses nothing but time.
    ///
    /// # Errors
    /// As [`Watch::new`]; the watch is of no more use then.
    pub async fn changed(&mut self) -> Result<(), HostError> {
        loop {
            let fail = |e| HostError::new("watch", &describe(&self.directories), e);
            let mut ready = self.handle.readable().await.map_err(fail)?;
            let read = ready.try_io(|handle| Ok(handle.get_ref().0.read_events()?));
            let Ok(events) = read else { continue };
            if events.map_err(fail)?.iter().any(|event| self.concerns(event)) {
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
            // A directory that appears between the look at it and the watch above it would be
            // missed: look again.
            while !self.arm_one(directory, &mut armed)? && directory.is_dir() {}
        }
        for stale in self.armed.keys().filter(|old| !armed.contains_key(old)) {
            // Watches of removed directories are gone already.
            let _ = self.handle.get_ref().0.rm_watch(*stale);
        }
        self.armed = armed;
        Ok(())
    }

    /// Whether the directory itself is there and watched.
    fn arm_one(
        &self,
        directory: &Path,
        armed: &mut HashMap<WatchDescriptor, Vec<Interest>>,
    ) -> Result<bool, HostError> {
        let (mut direct, mut places) = (false, 0);
        let mut interest = Interest::Anything;
        for place in directory.ancestors() {
            match self.handle.get_ref().0.add_watch(place, mask()) {
                Ok(descriptor) => {
                    direct |= place == directory;
                    places += 1;
                    armed.entry(descriptor).or_default().push(interest);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                // A parent that may not be read only hides removal and return.
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
struct Handle(Inotify);

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[allow(unsafe_code, reason = "the runtime trusts its caller to keep the descriptor")]
fn register(handle: Handle) -> io::Result<AsyncFd<Handle>> {
    // SAFETY: the handle owns its descriptor, never changes it, and moves into the registration.
    Ok(unsafe { AsyncFd::register_with_interest(handle, tokio::io::Interest::READABLE) }?)
}

#[derive(Debug)]
enum Interest {
    Anything,
    Entry(OsString),
}

fn describe(directories: &[PathBuf]) -> PathBuf {
    directories.first().cloned().unwrap_or_default()
}

/// A file counts when its writer has closed it, was moved, or its rights changed.
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

/// The directory itself and one above it, or the two nearest above it that exist.
const PLACES: u32 = 2;

#[cfg(test)]
mod tests;
