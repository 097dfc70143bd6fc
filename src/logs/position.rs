//! The position up to which a log has been written, in the form in which it is saved.
//!
//! A position connects a place in the engine's files with a length of the CRI output. dockbridge reads the entries
//! after the place again, and skips their output that is already in the CRI files. An old position costs time, but
//! loses no line.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};

/// Identifies a file, even if it was renamed.
///
/// Inode numbers are reused, so the birth time is also compared. The birth time does not show which file is
/// older: the clock may be set back. Device numbers may change at a reboot, so they are compared only on file
/// systems without birth times.
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

/// The position from which a later dockbridge process resumes a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Where to continue in the engine's files. None while dockbridge searches for the place at which to continue.
    pub source: Option<SourcePosition>,
    /// Where the CRI output of the entries before `source` ends.
    pub output: OutputPosition,
}

/// A place in the engine's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePosition {
    pub file: Identity,
    /// The start of a line in the file.
    pub place: Place,
}

/// An offset in a file of the engine, and the last bytes before the offset.
///
/// A file that was truncated and has grown again has the same inode, but other bytes before the offset, because each
/// entry ends with its time in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub offset: u64,
    /// The last bytes before the offset, at most [`COMPARED_BYTES`].
    before: Vec<u8>,
}

impl Place {
    /// The place at an offset in a file. If the file is shorter, the place has no bytes to compare.
    pub fn at(file: &File, offset: u64) -> io::Result<Self> {
        let length = usize::try_from(offset).unwrap_or(COMPARED_BYTES).min(COMPARED_BYTES);
        let before = read_before(file, offset, length)?.unwrap_or_default();
        Ok(Self { offset, before })
    }

    /// Advances the place over `read`, the bytes that were read at the place.
    pub fn advance(&mut self, read: &[u8]) {
        self.offset = self.offset.saturating_add(u64::try_from(read.len()).unwrap_or(u64::MAX));
        self.before.extend_from_slice(read.last_chunk::<COMPARED_BYTES>().map_or(read, |end| end));
        self.before.drain(..self.before.len().saturating_sub(COMPARED_BYTES));
    }

    /// Whether the file still has the recorded bytes before the offset.
    pub fn is_in(&self, file: &File) -> io::Result<bool> {
        Ok(read_before(file, self.offset, self.before.len())?.as_ref() == Some(&self.before))
    }
}

fn read_before(file: &File, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
    let from = u64::try_from(length).ok().and_then(|length| offset.checked_sub(length));
    let (Some(from), mut bytes) = (from, vec![0; length]) else { return Ok(None) };
    match file.read_exact_at(&mut bytes, from) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// A length of a log's CRI output, counted from the start of one file on, through all newer files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPosition {
    /// The file from whose start on `length` counts bytes.
    pub file: Identity,
    pub length: u64,
    /// The log's older files when `file` became the first one to be counted.
    pub older: Vec<Identity>,
    /// The files that were created after `file`, in order. A file that is neither here nor in `older` is even newer.
    pub newer: Vec<Identity>,
}

/// How many bytes before an offset are compared: enough for the time of the engine's last entry.
const COMPARED_BYTES: usize = 48;
