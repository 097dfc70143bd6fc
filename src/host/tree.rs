//! Disk usage of a directory tree, in steps, while it may be changing.
//!
//! The walk never follows a symbolic link, never leaves the file system it began on, counts a file
//! with several names once, and skips entries that are removed before it reads them.

use std::{
    collections::HashSet,
    fs::{self, File, Metadata, ReadDir},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use nix::{
    fcntl::{OFlag, openat},
    sys::stat::Mode,
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

/// A walk in progress. It holds two descriptors for each level below the root.
#[derive(Debug)]
pub struct Walk {
    device: u64,
    levels: Vec<Level>,
    /// Inodes with several names that were counted.
    linked: HashSet<u64>,
    size: Size,
}

#[derive(Debug)]
struct Level {
    directory: OwnedFd,
    entries: ReadDir,
}

impl Walk {
    /// Starts at a directory, whose path may have links.
    ///
    /// # Errors
    /// It is absent, no directory, or not permitted.
    pub fn begin(root: &Path) -> Result<Self, HostError> {
        let opened =
            File::open(root).and_then(|root| Ok((root.metadata()?, Level::read(root.into())?)));
        let (metadata, level) = opened.map_err(|e| HostError::new("measure", root, e))?;
        let mut walk = Self {
            device: metadata.dev(),
            levels: vec![level],
            linked: HashSet::new(),
            size: Size::default(),
        };
        walk.count(&metadata);
        Ok(walk)
    }

    /// Reads this many further entries; returns the size at the end.
    pub fn step(&mut self, entries: usize) -> Option<Size> {
        for _ in 0..entries {
            let Some(level) = self.levels.last_mut() else { return Some(self.size) };
            match level.entries.next() {
                // A directory that can no longer be read is at its end.
                None | Some(Err(_)) => drop(self.levels.pop()),
                Some(Ok(entry)) => self.count_entry(&entry),
            }
        }
        self.levels.is_empty().then_some(self.size)
    }

    fn count_entry(&mut self, entry: &fs::DirEntry) {
        // Of a link itself.
        let Ok(metadata) = entry.metadata() else { return };
        if metadata.dev() != self.device {
            return;
        }
        self.count(&metadata);
        if metadata.is_dir() && self.levels.len() < DEEPEST {
            let below = self.levels.last().and_then(|level| level.below(entry).ok());
            self.levels.extend(below);
        }
    }

    fn count(&mut self, metadata: &Metadata) {
        let several = metadata.nlink() > 1 && !metadata.is_dir();
        if several && self.linked.contains(&metadata.ino()) {
            return;
        }
        if several && self.linked.len() < MOST_LINKED {
            self.linked.insert(metadata.ino());
        }
        self.size.inodes = self.size.inodes.saturating_add(1);
        self.size.bytes = self.size.bytes.saturating_add(metadata.blocks().saturating_mul(BLOCK));
    }
}

impl Level {
    fn read(directory: OwnedFd) -> io::Result<Self> {
        let entries = fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
        Ok(Self { directory, entries })
    }

    /// The directory an entry of this one is; an error if it is none any more.
    fn below(&self, entry: &fs::DirEntry) -> io::Result<Self> {
        let way = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let name = entry.file_name();
        Self::read(openat(&self.directory, name.as_os_str(), way, Mode::empty())?)
    }
}

/// The unit of `st_blocks`, whatever the file system's.
const BLOCK: u64 = 512;
/// Deeper levels are not counted: a very deep tree would take all descriptors.
const DEEPEST: usize = 64;
/// Files with several names beyond this many count once for each name.
const MOST_LINKED: usize = 1 << 20;

#[cfg(test)]
mod tests;
