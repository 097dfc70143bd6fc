//! Disk usage of a directory tree, in steps, while it may be changing.
//!
//! The walk never follows a symbolic link, never leaves the file system it began on, counts a file
//! with several names once, and skips entries that are removed before it reads them.

use std::{collections::HashSet, ffi::CStr, io, path::Path};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx},
};

use super::error::HostError;

/// Disk usage of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes on disk, as `du` counts.
    pub bytes: u64,
    /// Files, directories and everything else; the root of the tree included.
    pub inodes: u64,
}

/// A walk in progress. It holds at most [`KEPT_OPEN`] + 1 descriptors, however deep the tree is.
#[derive(Debug)]
pub struct Walk {
    device: (u32, u32),
    /// From the root to the directory that is being read, which is open.
    levels: Vec<Level>,
    /// Inodes with several names that were counted.
    linked: HashSet<u64>,
    size: Size,
}

/// A directory that was not read to its end yet.
#[derive(Debug)]
struct Level {
    inode: u64,
    /// None while a directory below this one is read, if this is not one of the first [`KEPT_OPEN`].
    directory: Option<Dir>,
    /// Where to continue reading.
    position: i64,
}

impl Walk {
    /// Starts at a directory. Its path may contain symbolic links.
    ///
    /// # Errors
    /// It is absent, not a directory, or not permitted.
    pub fn begin(root: &Path) -> Result<Self, HostError> {
        let opened = openat(CWD, root, DIRECTORY, Mode::empty()).and_then(|root| {
            let facts = facts(&root, c"")?;
            Ok((Level::new(&facts, Dir::new(root)?), facts))
        });
        let (level, facts) = opened.map_err(|e| HostError::new("measure", root, e))?;
        let mut walk = Self {
            device: device(&facts),
            levels: vec![level],
            linked: HashSet::new(),
            size: Size::default(),
        };
        walk.count(&facts);
        Ok(walk)
    }

    /// Reads this many further entries; returns the size at the end.
    pub fn step(&mut self, entries: usize) -> Option<Size> {
        for _ in 0..entries {
            let Some(level) = self.levels.last_mut() else { return Some(self.size) };
            match level.directory.as_mut().and_then(Dir::read) {
                // A directory that can no longer be read is at its end.
                None | Some(Err(_)) => self.leave(),
                Some(Ok(entry)) => self.count_entry(&entry),
            }
        }
        self.levels.is_empty().then_some(self.size)
    }

    fn count_entry(&mut self, entry: &DirEntry) {
        let name = entry.file_name();
        let Some(level) = self.levels.last_mut().filter(|_| name != c"." && name != c"..") else {
            return;
        };
        level.position = entry.offset();
        let Some(directory) = level.directory.as_ref().and_then(|it| it.fd().ok()) else { return };
        // Of a link itself.
        let Ok(facts) = facts(directory, name) else { return };
        if device(&facts) != self.device {
            return;
        }
        let below = is_directory(&facts).then(|| openat(directory, name, BELOW, Mode::empty()));
        self.count(&facts);
        // An error if it is no directory any more.
        if let Some(below) = below.and_then(Result::ok) {
            self.enter(below);
        }
    }

    fn enter(&mut self, below: OwnedFd) {
        let Ok(facts) = facts(&below, c"") else { return };
        let Ok(directory) = Dir::new(below) else { return };
        if device(&facts) != self.device {
            return;
        }
        if self.levels.len() > KEPT_OPEN
            && let Some(level) = self.levels.last_mut()
        {
            level.directory = None;
        }
        self.levels.push(Level::new(&facts, directory));
    }

    /// Returns to the parent directory. If the directory was moved during the walk, its parent is not
    /// the one that the walk came from. Then the walk continues at the deepest open directory.
    fn leave(&mut self) {
        let left = self.levels.pop();
        while let Some(level) = self.levels.last_mut() {
            if level.directory.is_none()
                && let Some(left) = left.as_ref().and_then(|left| left.directory.as_ref())
            {
                level.directory = level.reopened(self.device, left).ok();
            }
            if level.directory.is_some() {
                return;
            }
            self.levels.pop();
        }
    }

    fn count(&mut self, facts: &Statx) {
        let several = facts.stx_nlink > 1 && !is_directory(facts);
        if several && self.linked.contains(&facts.stx_ino) {
            return;
        }
        if several && self.linked.len() < MOST_LINKED {
            self.linked.insert(facts.stx_ino);
        }
        self.size.inodes = self.size.inodes.saturating_add(1);
        self.size.bytes = self.size.bytes.saturating_add(facts.stx_blocks.saturating_mul(BLOCK));
    }
}

impl Level {
    fn new(facts: &Statx, directory: Dir) -> Self {
        Self { inode: facts.stx_ino, directory: Some(directory), position: 0 }
    }

    /// This directory again, from one that was in it.
    fn reopened(&self, device_of_walk: (u32, u32), below: &Dir) -> io::Result<Dir> {
        let above = openat(below.fd()?, c"..", BELOW, Mode::empty())?;
        let facts = facts(&above, c"")?;
        if facts.stx_ino != self.inode || device(&facts) != device_of_walk {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut directory = Dir::new(above)?;
        directory.seek(self.position)?;
        Ok(directory)
    }
}

/// An empty name is the directory itself.
fn facts(directory: impl AsFd, name: &CStr) -> rustix::io::Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    statx(directory, name, flags, StatxFlags::BASIC_STATS)
}

fn device(facts: &Statx) -> (u32, u32) {
    (facts.stx_dev_major, facts.stx_dev_minor)
}

fn is_directory(facts: &Statx) -> bool {
    FileType::from_raw_mode(facts.stx_mode.into()) == FileType::Directory
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const BELOW: OFlags = DIRECTORY.union(OFlags::NOFOLLOW);
/// The unit of `stx_blocks`, whatever the file system's.
const BLOCK: u64 = 512;
/// Directories on the way from the root that stay open while those below them are read. Deeper ones are
/// opened again by `..`, so that the depth of a tree needs no limit.
const KEPT_OPEN: usize = 16;
/// Files with several names beyond this many count once for each name.
const MOST_LINKED: usize = 1 << 20;

#[cfg(test)]
mod tests;
