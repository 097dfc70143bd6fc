//! Writes the CRI file of one log, and skips output that the file already has.
//!
//! The caller passes all CRI lines after some place in the engine's files. After a restart, or after a write that a
//! full disk cut short, the CRI files may already have some of them, which the writer then skips. The writer
//! recognises a renamed CRI file by its identity.

use std::{fs::File, io, io::Write};

use super::{
    cri_files::{CriFile, CriFiles},
    cri_tail::{self, Written},
    error::LogError,
    log_path::LogPath,
    position::{Identity, OutputPosition},
};
use crate::host::{beneath, error::HostError};

/// The state of the CRI files when the log was opened.
#[derive(Debug, PartialEq, Eq)]
pub enum Existing {
    /// The saved position is valid. The writer skips the bytes that the files already have after the position.
    Known,
    Nothing,
    /// The CRI files have no entries, and the log's path was a link, as with `container-log-format = "docker"`.
    Link,
    /// The CRI files have entries, but there is no usable position. The value describes the last entries.
    Written(Written),
}

/// The open CRI file of one log.
#[derive(Debug)]
pub struct CriWriter {
    target: LogPath,
    file: File,
    identity: Identity,
    length: u64,
    /// The file from whose start on `total` counts bytes.
    origin: Identity,
    older: Vec<Identity>,
    newer: Vec<Identity>,
    total: u64,
    /// How many bytes the caller will pass again, which must be skipped.
    repeated: u64,
    /// How many more bytes fit on the simulated disk; None if all do.
    #[cfg(test)]
    pub(super) room: Option<u64>,
}

impl CriWriter {
    /// Opens the log, and finds out how far it was written.
    pub fn open(
        target: LogPath,
        position: Option<&OutputPosition>,
    ) -> Result<(Self, Existing), LogError> {
        let cri_files = CriFiles::list(&target)?;
        // If kubelet has renamed the position's file and no new file exists, continues the renamed file, because
        // kubelet gives the file its old name back if its call to reopen the log fails.
        let since = position.and_then(|position| cri_files.since(position));
        let renamed = since.as_ref().and_then(|since| since.newest_if_renamed());
        let file = match renamed {
            Some(name) => beneath::open(target.root(), &target.sibling(name)),
            None => beneath::append(target.root(), target.name(), MODE),
        };
        let file = file.map_err(LogError::Target)?;
        let metadata = file.metadata().map_err(|e| read_error(&target, e))?;
        let identity = Identity::of(&metadata);
        let mut writer = Self {
            file,
            identity,
            length: metadata.len(),
            origin: identity,
            older: Vec::new(),
            newer: Vec::new(),
            total: metadata.len(),
            repeated: 0,
            #[cfg(test)]
            room: None,
            target,
        };
        let known = position.map(|position| writer.since(position)).transpose()?.flatten();
        let before = match (position, known) {
            (Some(position), Some((total, newer))) if total >= position.length => {
                writer.origin = position.file;
                writer.older.clone_from(&position.older);
                writer.newer = newer;
                if identity != position.file && !writer.newer.contains(&identity) {
                    writer.newer.push(identity);
                }
                writer.total = total;
                writer.repeated = total - position.length;
                Existing::Known
            }
            _ => {
                let (before, cri_files) = writer.before(cri_files.link)?;
                writer.older = identities(&cri_files, &identity);
                before
            }
        };
        writer.settle();
        Ok((writer, before))
    }

    /// Writes the next CRI lines, except bytes that the CRI files already have.
    ///
    /// # Errors
    /// Not all bytes were written. The caller must pass the same bytes again, and may append further bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        let repeated = usize::try_from(self.repeated).unwrap_or(usize::MAX).min(bytes.len());
        let mut rest = bytes.get(repeated..).unwrap_or(&[]);
        let mut taken = 0;
        while !rest.is_empty() {
            match self.put(rest) {
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or(&[]);
                    taken += length(count);
                    self.length += length(count);
                    self.total += length(count);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.repeated += taken;
                    return Err(write_error(&self.target, e));
                }
            }
        }
        self.repeated -= length(repeated);
        self.settle();
        Ok(())
    }

    /// Opens the file at the log's path, or creates it, and continues in that file.
    ///
    /// # Errors
    /// The file cannot be opened or created. After an error the writer continues in the old file.
    pub fn reopen(&mut self) -> Result<(), LogError> {
        let opened = beneath::append(self.target.root(), self.target.name(), MODE);
        let file = opened.map_err(LogError::Target)?;
        let metadata = file.metadata().map_err(|e| read_error(&self.target, e))?;
        let identity = Identity::of(&metadata);
        if identity == self.identity {
            return Ok(());
        }
        // If a full disk cut a line short, the old file loses the beginning of that line, and the new file
        // gets the whole line.
        let torn = self.cut_torn().unwrap_or(0);
        self.repeated = self.repeated.saturating_sub(torn);
        self.file = file;
        self.identity = identity;
        self.newer.push(identity);
        self.length = metadata.len();
        self.total += self.length;
        self.settle();
        Ok(())
    }

    /// Forgets how many bytes to skip, because the engine's entries for them no longer exist or are in
    /// another file. Returns the last entries of the CRI files.
    pub fn lose_track(&mut self) -> Result<Written, LogError> {
        let (before, _) = self.before(false)?;
        self.repeated = 0;
        self.settle();
        Ok(match before {
            Existing::Written(written) => written,
            _ => Written::default(),
        })
    }

    /// Whether the writer still has bytes to skip.
    pub fn is_behind(&self) -> bool {
        self.repeated > 0
    }

    /// The position in the CRI log after the entries that the caller has passed to [`Self::write`].
    pub fn position(&self) -> OutputPosition {
        let length = self.total.saturating_sub(self.repeated);
        let (older, newer) = (self.older.clone(), self.newer.clone());
        OutputPosition { file: self.origin, length, older, newer }
    }

    /// The total length of the position's file and all newer files, and the identities of the newer files. None if
    /// the position's file no longer exists. Removes an incomplete last line from each of these files except the
    /// open one, which gets the rest of the line.
    fn since(&self, position: &OutputPosition) -> Result<Option<(u64, Vec<Identity>)>, LogError> {
        self.listed(|cri_files| {
            let Some(since) = cri_files.since(position) else { return Ok(Some(None)) };
            let mut total = since.total;
            for file in since.files().filter(|file| file.identity != self.identity) {
                let Some(opened) = self.open_listed(file)? else { return Ok(None) };
                total -= cri_tail::cut(&opened).map_err(|e| write_error(&self.target, e))?;
            }
            Ok(Some(Some((total, since.newer()))))
        })
    }

    /// The existing content of a log without a usable position, and the list of the log's files. `link` says
    /// whether a link had the log's name. Removes an incomplete last line from each of the files.
    fn before(&mut self, link: bool) -> Result<(Existing, CriFiles), LogError> {
        self.cut_torn()?;
        self.listed(|cri_files| {
            let written = self.last_written(&cri_files)?;
            let nothing = if link { Existing::Link } else { Existing::Nothing };
            Ok(written.map(|written| (written.map_or(nothing, Existing::Written), cri_files)))
        })
    }

    /// Lists the log's files and calls `read` with them. If `read` returns None, because a file was renamed
    /// or removed, lists the files again.
    fn listed<T>(
        &self,
        read: impl Fn(CriFiles) -> Result<Option<T>, LogError>,
    ) -> Result<T, LogError> {
        for _ in 0..MOST_LISTINGS {
            if let Some(found) = read(CriFiles::list(&self.target)?)? {
                return Ok(found);
            }
        }
        Err(read_error(&self.target, io::Error::other("log files keep being renamed or removed")))
    }

    /// The last entries in the files; `Some(None)` if they have no entries, None if a file was renamed or removed.
    fn last_written(&self, cri_files: &CriFiles) -> Result<Option<Option<Written>>, LogError> {
        let own = cri_tail::last(&self.file).map_err(|e| read_error(&self.target, e))?;
        let mut newest_first: Vec<Written> = own.into_iter().collect();
        for file in cri_files.others(&self.identity).filter(|file| file.length > 0) {
            let Some(opened) = self.open_listed(file)? else { return Ok(None) };
            let last = cri_tail::cut(&opened).and_then(|_| cri_tail::last(&opened));
            newest_first.extend(last.map_err(|e| read_error(&self.target, e))?);
        }
        Ok(Some(newest_first.into_iter().reduce(Written::and_older)))
    }

    fn open_listed(&self, listed: &CriFile) -> Result<Option<File>, LogError> {
        let name = self.target.sibling(&listed.name);
        let file = match beneath::open(self.target.root(), &name) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened.map_err(LogError::Target)?,
        };
        let metadata = file.metadata().map_err(|e| read_error(&self.target, e))?;
        Ok((Identity::of(&metadata) == listed.identity).then_some(file))
    }

    /// Truncates the open file after its last complete line. Returns the number of removed bytes.
    fn cut_torn(&mut self) -> Result<u64, LogError> {
        let torn = cri_tail::cut(&self.file).map_err(|e| write_error(&self.target, e))?;
        self.length = self.length.saturating_sub(torn);
        self.total = self.total.saturating_sub(torn);
        Ok(torn)
    }

    /// If no bytes are left to skip, counts the position from the start of the open file, not of an earlier file.
    fn settle(&mut self) {
        if self.repeated == 0
            && self.origin != self.identity
            && let Ok(cri_files) = CriFiles::list(&self.target)
        {
            self.origin = self.identity;
            self.total = self.length;
            self.older = identities(&cri_files, &self.identity);
            self.newer.clear();
        }
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

fn identities(cri_files: &CriFiles, one: &Identity) -> Vec<Identity> {
    cri_files.others(one).map(|file| file.identity).collect()
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

/// The mode of containerd's CRI files: only the owner and the group can read the log.
const MODE: u32 = 0o640;
/// How often the files are listed at most. kubelet renames one file at a time, so a few times are enough.
const MOST_LISTINGS: u32 = 16;
