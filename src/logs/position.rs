//! How far a log has been written, in the form that is saved.
//!
//! A position is a place in the engine's files before which everything is in the CRI files. What the CRI
//! files contain beyond it is found by comparing their last lines with the engine's entries after that place.
//! So an old position costs time, but loses no line.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};

/// Identifies a file, even if it was renamed.
///
/// Inode numbers are reused, so the birth time is also compared. It does not say which file is older,
/// because the clock may have been set back. The device number may change at a reboot. It is compared only
/// on file systems without birth times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    inode: u64,
    born: Option<u64>,
    device: Option<u64>,
}

impl Identity {
    /// The identity of an open or listed file.
    pub fn of(metadata: &Metadata) -> Self {
        let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let device = born.is_none().then(|| metadata.dev());
        let born = born.and_then(|at| u64::try_from(at.as_nanos()).ok());
        Self { inode: metadata.ino(), born, device }
    }
}

/// What a later run resumes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Where to continue reading. None if entries come from the engine's logs API, or if the place is still
    /// being searched for.
    pub source: Option<SourcePosition>,
    /// The CRI file to which the entries before that place were written.
    pub file: Identity,
    /// The log's other CRI files, which are all older.
    pub older: Vec<Identity>,
}

/// A place in the engine's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    pub file: Identity,
    /// The start of a line.
    pub place: Place,
    /// The last entries before the place.
    pub last: Group,
}

/// Entries in a row that have the same time, such as the parts of a long line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The time as the engine wrote it.
    pub time: String,
    /// How many CRI lines they made. 0 before the first entry.
    pub lines: u32,
}

impl Group {
    /// Adds the next entry, which made this many CRI lines.
    pub fn add(&mut self, time: &str, lines: u32) {
        if self.time != time {
            time.clone_into(&mut self.time);
            self.lines = 0;
        }
        self.lines = self.lines.saturating_add(lines);
    }
}

/// An offset in a file, and the bytes before it.
///
/// A file that was truncated and has grown again has the same inode. But the bytes at this place differ,
/// because an entry ends with its time in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// At most [`COMPARED`] bytes.
    before: Vec<u8>,
}

impl Place {
    /// The place at this offset. If the file is shorter, no bytes are compared.
    pub fn at(file: &File, offset: u64) -> io::Result<Self> {
        let length = usize::try_from(offset).unwrap_or(COMPARED).min(COMPARED);
        let before = read_before(file, offset, length)?.unwrap_or_default();
        Ok(Self { offset, before })
    }

    /// Advances over bytes that were read here.
    pub fn advance(&mut self, read: &[u8]) {
        self.offset = self.offset.saturating_add(u64::try_from(read.len()).unwrap_or(u64::MAX));
        self.before.extend_from_slice(read.last_chunk::<COMPARED>().map_or(read, |end| end));
        self.before.drain(..self.before.len().saturating_sub(COMPARED));
    }

    /// Whether the file still has the same bytes before this place.
    pub fn is_in(&self, file: &File) -> io::Result<bool> {
        Ok(read_before(file, self.offset, self.before.len())?.as_ref() == Some(&self.before))
    }
}

/// None if the file is shorter.
fn read_before(file: &File, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let from = u64::try_from(length).ok().and_then(|length| offset.checked_sub(length));
    let (Some(from), mut bytes) = (from, vec![0; length]) else { return Ok(None) };
    match file.read_exact_at(&mut bytes, from) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Enough for the time of the engine's last entry, without its text.
const COMPARED: usize = 48;
