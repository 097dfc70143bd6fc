//! The CRI file of one log.
//!
//! After a write that a full disk cut short, the caller passes the same lines again, and the bytes that were
//! written are skipped. If kubelet has renamed the file, its identity shows which one it is.

use std::{fs::File, io, io::Write};

use super::{
    cri_files::{CriFile, CriFiles},
    cri_tail::{self, Written},
    error::LogError,
    log_path::LogPath,
    position::{Group, Identity, Position, SourcePosition},
};
use crate::host::{beneath, error::HostError};

/// The open CRI file of one log.
#[derive(Debug)]
pub struct CriWriter {
    target: LogPath,
    file: File,
    identity: Identity,
    /// The log's other files, which are all older.
    older: Vec<Identity>,
    /// Bytes that will be passed again and must be skipped.
    repeated: u64,
    /// In tests: free space on the disk.
    #[cfg(test)]
    pub(super) room: Option<u64>,
}

impl CriWriter {
    /// Opens the log. Also returns whether there was a symbolic link to the engine's file, because another
    /// log format was used before.
    pub fn open(target: LogPath, position: Option<&Position>) -> Result<(Self, bool), LogError> {
        let cri_files = CriFiles::list(&target)?;
        // A renamed file without a successor is continued. If kubelet cannot get the log reopened, it gives
        // the file its old name back.
        let file = match position.and_then(|position| cri_files.newest_if_renamed(position)) {
            Some(newest) => beneath::open(target.root(), &target.beside(&newest.name)),
            None => beneath::append(target.root(), target.name(), MODE),
        };
        let file = file.map_err(LogError::Target)?;
        let metadata = file.metadata().map_err(|e| read_error(&target, e))?;
        let identity = Identity::of(&metadata);
        let writer = Self {
            file,
            identity,
            older: cri_files.others(&identity).map(|file| file.identity).collect(),
            repeated: 0,
            #[cfg(test)]
            room: None,
            target,
        };
        Ok((writer, cri_files.link))
    }

    /// Writes the lines of the next entries, without those that were written before.
    ///
    /// # Errors
    /// Not everything was written. The caller must pass the same bytes again, and may append more.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        let repeated = usize::try_from(self.repeated).unwrap_or(usize::MAX).min(bytes.len());
        let mut rest = bytes.get(repeated..).unwrap_or(&[]);
        let mut taken = 0;
        while !rest.is_empty() {
            match self.put(rest) {
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or(&[]);
                    taken += length(count);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.repeated += taken;
                    return Err(write_error(&self.target, e));
                }
            }
        }
        self.repeated -= length(repeated);
        Ok(())
    }

    /// Creates a new file at the log's path and continues there.
    ///
    /// # Errors
    /// The file cannot be created. The old file stays in use.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        let opened = beneath::append(self.target.root(), self.target.name(), MODE);
        let file = opened.map_err(LogError::Target)?;
        let metadata = file.metadata().map_err(|e| read_error(&self.target, e))?;
        let identity = Identity::of(&metadata);
        if identity == self.identity {
            return Ok(());
        }
        // A line that a full disk cut short is written completely to the new file.
        let torn = cri_tail::cut(&self.file).unwrap_or(0);
        self.repeated = self.repeated.saturating_sub(torn);
        self.file = file;
        self.older.push(std::mem::replace(&mut self.identity, identity));
        if let Ok(cri_files) = CriFiles::list(&self.target) {
            self.older.retain(|one| cri_files.others(&identity).any(|file| file.identity == *one));
        }
        Ok(())
    }

    /// Forgets how many bytes to skip, because their entries are gone or in another file. Returns the
    /// entries that were written last.
    pub fn lose_track(&mut self) -> Result<Written, LogError> {
        self.repeated = 0;
        Ok(self.written()?.unwrap_or_default())
    }

    /// Skips the first bytes that are passed, because they are in the log.
    pub fn skip(&mut self, bytes: u64) {
        self.repeated = bytes;
    }

    /// Whether there are still bytes to skip.
    pub fn is_behind(&self) -> bool {
        self.repeated > 0
    }

    /// Whether the open file ends with exactly these entries. An incomplete last line is removed.
    pub fn ends_with(&self, last: &Group) -> Result<bool, LogError> {
        let ends = cri_tail::cut(&self.file).and_then(|_| cri_tail::ends_with(&self.file, last));
        ends.map_err(|e| write_error(&self.target, e))
    }

    /// The position after everything that was passed, which ends at this place.
    pub fn position(&self, source: Option<SourcePosition>) -> Position {
        Position { source, file: self.identity, older: self.older.clone() }
    }

    /// The last entries in the log's files. Incomplete last lines are removed. If a file is renamed
    /// meanwhile, the files are listed again.
    pub fn written(&mut self) -> Result<Option<Written>, LogError> {
        for _ in 0..MOST_LISTINGS {
            let cri_files = CriFiles::list(&self.target)?;
            if let Some(newest_first) = self.last_entries(&cri_files)? {
                self.older = cri_files.others(&self.identity).map(|file| file.identity).collect();
                return Ok(newest_first.into_iter().reduce(Written::and_older));
            }
        }
        Err(read_error(&self.target, io::Error::other("its files are being renamed")))
    }

    /// The last entries of each file, newest first. None if one of the files was renamed.
    fn last_entries(&self, cri_files: &CriFiles) -> Result<Option<Vec<Written>>, LogError> {
        let mut newest_first = Vec::new();
        let last = |file: &File| cri_tail::cut(file).and_then(|_| cri_tail::last(file));
        newest_first.extend(last(&self.file).map_err(|e| write_error(&self.target, e))?);
        for file in cri_files.others(&self.identity).filter(|file| file.length > 0) {
            let Some(opened) = self.open_listed(file)? else { return Ok(None) };
            newest_first.extend(last(&opened).map_err(|e| write_error(&self.target, e))?);
        }
        Ok(Some(newest_first))
    }

    /// None if the file was renamed or removed.
    fn open_listed(&self, listed: &CriFile) -> Result<Option<File>, LogError> {
        let name = self.target.beside(&listed.name);
        let file = match beneath::open(self.target.root(), &name) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened.map_err(LogError::Target)?,
        };
        let metadata = file.metadata().map_err(|e| read_error(&self.target, e))?;
        Ok((Identity::of(&metadata) == listed.identity).then_some(file))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        let bytes = match &mut self.room {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(room) => {
                let fits = bytes.len().min(usize::try_from(*room).unwrap());
                *room -= length(fits);
                &bytes[..fits]
            }
            None => bytes,
        };
        match self.file.write(bytes)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        }
    }
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn read_error(target: &LogPath, error: io::Error) -> LogError {
    LogError::Target(HostError::new("read", &target.full(), error))
}

fn write_error(target: &LogPath, error: io::Error) -> LogError {
    LogError::Target(HostError::new("write", &target.full(), error))
}

/// The mode that other CRI runtimes use. Other users cannot read the log.
const MODE: u32 = 0o640;
/// kubelet renames one file, and then asks for a new one.
const MOST_LISTINGS: u32 = 16;
