//! Measures the disk usage of a directory tree in steps. The tree may change during the walk.
//!
//! The walk follows symbolic links only in the path of its root, and never leaves the file system on which it began. Of
//! the files with several names, the walk counts the first `MOST_LINKED` once each. The walk skips entries that are
//! removed before it reads them.

use std::{collections::HashSet, ffi::CStr, io, path::Path};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx},
};

use super::error::{HostError, OrCannot as _};

/// The disk usage of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The number of bytes on disk, as `du` counts.
    pub bytes: u64,
    /// The number of inodes (of files, directories and others), including the root of the tree.
    pub inodes: u64,
}

/// A walk in progress. However deep the tree is, at most [`KEPT_OPEN`] + 1 directories stay open between steps.
#[derive(Debug)]
pub struct Walk {
    device: (u32, u32),
    /// The directories from the root to the directory that is being read. The last directory is open.
    levels: Vec<Level>,
    /// The inodes with several names that the walk has counted and remembers.
    linked: HashSet<u64>,
    size: Size,
}

#[derive(Debug)]
struct Level {
    inode: u64,
    /// The open directory. None on levels after [`KEPT_OPEN`] while the walk is further below.
    directory: Option<Dir>,
    /// The position at which the walk continues to read the directory.
    position: i64,
}

impl Walk {
    /// Starts a walk at a directory, whose path may contain symbolic links.
    ///
    /// # Errors
    /// The path does not exist, is not a directory, or access is denied.
    pub fn begin(root: &Path) -> Result<Self, HostError> {
        let opened = openat(CWD, root, DIRECTORY, Mode::empty()).and_then(|root| {
            let facts = facts(&root, c"")?;
            Ok((Level::new(&facts, Dir::new(root)?), facts))
        });
        let (level, facts) = opened.or_cannot("measure", root)?;
        let mut walk = Self {
            device: device(&facts),
            levels: vec![level],
            linked: HashSet::new(),
            size: Size::default(),
        };
        walk.count(&facts);
        Ok(walk)
    }

    /// Reads up to `entries` further entries of the tree. At the end of the walk, returns the size.
    pub fn step(&mut self, entries: usize) -> Option<Size> {
        for _ in 0..entries {
            let Some(level) = self.levels.last_mut() else { return Some(self.size) };
            match level.directory.as_mut().and_then(Dir::read) {
                // A directory that can no longer be read counts as read to its end.
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
        // The facts of a symbolic link are those of the link itself.
        let Ok(facts) = facts(directory, name) else { return };
        if device(&facts) != self.device {
            return;
        }
        let below = is_directory(&facts).then(|| openat(directory, name, BELOW, Mode::empty()));
        self.count(&facts);
        // Opening fails if the entry is no longer a directory.
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

    /// Continues the walk in the parent directory. If the directory was moved during the walk, its parent is
    /// another directory: then the walk continues at the deepest directory that is still open.
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

    /// Opens the directory of a level again, as the parent of `below`, a directory that was in it.
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

/// Reads the properties of an entry of `directory`; an empty name means the directory itself.
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
/// The unit of `stx_blocks`, which is the same on all file systems.
const BLOCK: u64 = 512;
/// On how many levels, counted from the root, directories stay open while the walk is further below. The walk
/// opens deeper directories again through `..`, so the depth of a tree is not limited.
const KEPT_OPEN: usize = 16;
/// How many files with several names the walk remembers; further such files count once for each name.
const MOST_LINKED: usize = 1 << 20;

#[cfg(test)]
mod tests;
