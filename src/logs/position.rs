//! How far a log has come, in the form in which it outlives the process.
//!
//! What is written is a function of the engine's entries. A position ties one place in the
//! engine's files to a length of the CRI file; whatever the CRI file holds beyond that length was
//! made of the entries that follow, and is passed over when they are read again. So a position
//! may be old: it costs time, never a line.

use std::{fs::Metadata, os::unix::fs::MetadataExt, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Which file it is, whatever its name is now.
///
/// Inode numbers are given out again, so the time of birth belongs to it. The device's number may
/// change when the machine starts; it counts only on file systems that keep no births.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    inode: u64,
    born: Option<u64>,
    device: Option<u64>,
}

impl Identity {
    /// Of an open or listed file.
    pub fn of(metadata: &Metadata) -> Self {
        let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let device = born.is_none().then(|| metadata.dev());
        let born = born.and_then(|at| u64::try_from(at.as_nanos()).ok());
        Self { inode: metadata.ino(), born, device }
    }

    /// Whether it may be younger than `other`: yes, unless the birth times show that it is older.
    pub fn not_before(&self, other: &Self) -> bool {
        self.born.zip(other.born).is_none_or(|(mine, theirs)| mine >= theirs)
    }

    /// Nanoseconds since 1970, where the file system keeps it.
    pub fn born(&self) -> Option<u64> {
        self.born
    }
}

/// What a later run resumes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Where to read on; none when entries come from the engine's logs API.
    pub source: Option<SourcePosition>,
    /// What the entries before that have become.
    pub output: OutputPosition,
    /// Entries from there on that were written already, where their times show that.
    pub mark: Option<LastWritten>,
}

/// A place in the engine's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    /// The file.
    pub file: Identity,
    /// Bytes; the beginning of a line.
    pub offset: u64,
}

/// A length of the CRI file, or of what has become several since it was last renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPosition {
    /// The file from whose beginning is counted.
    pub file: Identity,
    /// Bytes in it and in those that came after it.
    pub length: u64,
    /// Files of this log that are older although their birth times do not show it.
    #[serde(default)]
    pub older: Vec<Identity>,
}

/// The last entry written, by its time. Parts of a long line share one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWritten {
    /// As the engine wrote it.
    pub time: String,
    /// How many CRI lines with this time were written.
    pub count: u32,
    /// The latest time written: entries of the two streams are not quite in order.
    pub latest: String,
}
