//! How far a log has been written, in the form that is saved.
//!
//! The output depends only on the engine's entries. A position connects one place in the engine's files
//! with a length of the CRI file. Anything in the CRI file after that length was made from the entries that
//! follow, and is skipped when they are read again. So an old position costs time, but loses no line.

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
    /// Where to continue reading. None if the place is still being searched for.
    pub source: Option<SourcePosition>,
    /// The output written for the entries before that place.
    pub output: OutputPosition,
}

/// A place in the engine's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    pub file: Identity,
    /// The start of a line.
    pub place: Place,
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

/// A length of the CRI file. If the file was renamed and continued in others, the length of all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPosition {
    /// The file at whose start the length begins to count.
    pub file: Identity,
    /// Bytes in this file and in newer files.
    pub length: u64,
    /// The log's other files when counting began, which are all older.
    pub older: Vec<Identity>,
    /// Files that were created after `file`, in order. A file in neither list is even newer.
    pub newer: Vec<Identity>,
}

/// Enough for the time of the engine's last entry, without its text.
const COMPARED: usize = 48;
