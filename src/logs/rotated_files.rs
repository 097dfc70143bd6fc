//! The engine's json-file logs of one container: `….log`, and the rotated `….log.1`, `….log.2` and so on.
//!
//! With `max-file` above 1, the engine renames all files when the newest one is full, and removes the oldest one if
//! there are too many. An open file stays readable after its removal, so dockbridge keeps several unread files open.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{File, Metadata},
    io,
    path::{Path, PathBuf},
};

use super::{
    error::LogError,
    position::{Identity, Place},
};
use crate::host::error::HostError;

/// One of the engine's log files, opened.
#[derive(Debug)]
pub struct JsonFile {
    pub file: File,
    pub identity: Identity,
    /// Whether entries before the file's current content may be missing.
    pub after_gap: bool,
    /// The end of the file at the last check.
    seen: Place,
}

impl JsonFile {
    fn new(file: File, metadata: &Metadata) -> io::Result<Self> {
        let seen = Place::at(&file, metadata.len())?;
        Ok(Self { file, identity: Identity::of(metadata), after_gap: false, seen })
    }

    fn is_truncated(&mut self) -> io::Result<bool> {
        let end = Place::at(&self.file, self.file.metadata()?.len())?;
        let seen = std::mem::replace(&mut self.seen, end);
        Ok(!seen.is_in(&self.file)?)
    }
}

/// The file that is being read, and the newer files.
#[derive(Debug)]
pub struct RotatedFiles {
    pub source: PathBuf,
    pub current: JsonFile,
    newer: VecDeque<JsonFile>,
}

impl RotatedFiles {
    /// Starts with the file `at`, or with the oldest one if `at` is None or no longer exists. Returns whether
    /// `at` was found. Fails if no file exists, or if dockbridge cannot read the files.
    pub fn begin(source: &Path, at: Option<&Identity>) -> Result<(Self, bool), LogError> {
        let mut found = find_files(source, at)?;
        let absent = || LogError::SourceAbsent { path: source.to_owned() };
        let current = found.files.pop_front().ok_or_else(absent)?;
        Ok((Self { source: source.to_owned(), current, newer: found.files }, found.met))
    }

    /// Whether dockbridge has found a newer file.
    pub fn has_newer(&self) -> bool {
        !self.newer.is_empty()
    }

    /// Adds new files of the engine. Returns whether new files may have been lost, or an unread file was truncated.
    ///
    /// While [`HELD`] or more files of the log are open, newer files are not opened, and newer files that the engine
    /// removes in this time are lost. [`JsonFile::after_gap`] marks a gap.
    pub fn refresh(&mut self) -> Result<bool, LogError> {
        let mut gap = false;
        for file in &mut self.newer {
            let truncated = file.is_truncated().map_err(|e| read_error(&self.source, e))?;
            file.after_gap |= truncated;
            gap |= truncated;
        }
        let newest = self.newer.back().unwrap_or(&self.current).identity;
        if self.newer.len() + 1 >= HELD || self.is_newest(&newest) {
            return Ok(gap);
        }
        let mut found = find_files(&self.source, Some(&newest))?;
        if found.met {
            found.files.pop_front();
        } else if let Some(first) = found.files.front_mut() {
            first.after_gap = true;
        }
        gap |= !found.met && !found.files.is_empty();
        self.newer.append(&mut found.files);
        Ok(gap)
    }

    /// Continues with the next file, if there is one.
    pub fn advance(&mut self) -> bool {
        let Some(next) = self.newer.pop_front() else { return false };
        self.current = next;
        true
    }

    /// Skips the oldest output, so that at most `limit` bytes of the found files are left: skips whole files, and
    /// returns how many bytes of the then current file to skip.
    pub fn leave_out(&mut self, limit: u64) -> Result<u64, LogError> {
        loop {
            self.refresh()?;
            let first = self.length(&self.current)?;
            let rest = self.left(first)?;
            if rest < limit || !self.advance() {
                return Ok((first + rest).saturating_sub(limit).min(first));
            }
        }
    }

    /// How many bytes follow `offset` in the current file, together with all newer files that were found.
    pub fn left(&self, offset: u64) -> Result<u64, LogError> {
        let mut left = self.length(&self.current)?.saturating_sub(offset);
        for newer in &self.newer {
            left += self.length(newer)?;
        }
        Ok(left)
    }

    fn length(&self, generation: &JsonFile) -> Result<u64, LogError> {
        let metadata = generation.file.metadata();
        Ok(metadata.map_err(|e| read_error(&self.source, e))?.len())
    }

    /// Whether the file with this identity is the newest. Also true if `….log` is missing, as during a rotation.
    fn is_newest(&self, identity: &Identity) -> bool {
        let newest = std::fs::metadata(&self.source);
        newest.map_or(true, |metadata| Identity::of(&metadata) == *identity)
    }
}

struct FoundFiles {
    files: VecDeque<JsonFile>,
    /// The number of the newest file: 0 for `….log`, or 1 for `….log.1` in the middle of a rotation.
    newest: Option<u32>,
    /// Whether the first file is the one for which `find_files` searched.
    met: bool,
}

/// Opens the files from the newest to the oldest until it finds `known`, and keeps only the [`HELD`] oldest
/// of them open. If the engine rotates in the meantime, starts again, because a file could be missing.
fn find_files(source: &Path, known: Option<&Identity>) -> Result<FoundFiles, LogError> {
    for _ in 0..MOST_SCANS {
        let mut found = scan(source, known)?;
        let newest = found.files.back().map(|file| file.identity);
        if newest_number(source, newest.as_ref()) == found.newest {
            found.files.truncate(HELD);
            return Ok(found);
        }
    }
    let error =
        io::Error::other("the engine rotates the container's log files too often to read them");
    Err(read_error(source, error))
}

fn scan(source: &Path, known: Option<&Identity>) -> Result<FoundFiles, LogError> {
    let mut found = FoundFiles { files: VecDeque::new(), newest: None, met: false };
    let mut missing = 0;
    for number in 0..MOST_FILES {
        let path = numbered(source, number);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound && missing > 0 => break,
            // In the middle of a rotation, one number is missing among the names.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                missing += 1;
                continue;
            }
            Err(e) => return Err(read_error(&path, e)),
        };
        missing = 0;
        let metadata = file.metadata().map_err(|e| read_error(&path, e))?;
        let identity = Identity::of(&metadata);
        // During the search, the engine can rename an already opened file to the next number.
        let moved = |seen: &JsonFile| seen.identity == identity;
        if found.files.front().is_some_and(moved) || !metadata.is_file() {
            continue;
        }
        found.newest = found.newest.or(Some(number));
        found.files.push_front(JsonFile::new(file, &metadata).map_err(|e| read_error(&path, e))?);
        if known == Some(&identity) {
            found.met = true;
            break;
        }
    }
    Ok(found)
}

/// The number of the newest file, if `file` is still the newest. A rotation first renames this file, which changes its
/// number, and then creates a newer one. `file` is open, so no other file can have its identity.
fn newest_number(source: &Path, file: Option<&Identity>) -> Option<u32> {
    let at = |number| Some((number, std::fs::metadata(numbered(source, number)).ok()?));
    let (number, metadata) = (0..2).filter_map(at).find(|(_, metadata)| metadata.is_file())?;
    (Some(&Identity::of(&metadata)) == file).then_some(number)
}

fn numbered(source: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return source.to_owned();
    }
    let mut name = OsString::from(source);
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

pub(super) fn read_error(path: &Path, error: io::Error) -> LogError {
    LogError::Source(HostError::new("read", path, error))
}

const HELD: usize = 8;
/// A search tries only file numbers below this one.
const MOST_FILES: u32 = 1_000;
/// How many times one search lists the files at most: it lists them again if the engine has rotated them.
const MOST_SCANS: u32 = 16;

#[cfg(test)]
mod tests;
