//! Lists the CRI files of one log: the current file and the rotated files that kubelet has not compressed.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use super::{
    error::LogError,
    log_path::LogPath,
    position::{Identity, OutputPosition},
};
use crate::host::beneath;

/// A CRI file in a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriFile {
    pub name: OsString,
    pub identity: Identity,
    pub length: u64,
}

/// The CRI files of a log that are not compressed.
#[derive(Debug, Default)]
pub struct CriFiles {
    pub link: bool,
    current: Option<CriFile>,
    /// The uncompressed files whose name is the log's name with a suffix, the newest first.
    renamed: Vec<CriFile>,
}

/// The file of a saved position, and the newer files.
#[derive(Debug)]
pub struct WrittenSince<'a> {
    pub total: u64,
    origin: &'a CriFile,
    later: Vec<&'a CriFile>,
    is_renamed: bool,
}

impl CriFiles {
    /// Lists the files, except files that kubelet has compressed.
    pub fn list(target: &LogPath) -> Result<Self, LogError> {
        let directory = target.name().parent().unwrap_or(Path::new(""));
        let own = target.name().file_name().unwrap_or_default();
        let listed = beneath::list(target.root(), directory).map_err(LogError::Target)?;
        let mut found = Self::default();
        for (name, metadata) in listed {
            let identity = Identity::of(&metadata);
            let is_own = name == own;
            if !metadata.is_file() {
                found.link |= is_own && metadata.is_symlink();
            } else if is_own {
                found.current = Some(CriFile { name, identity, length: metadata.len() });
            } else if is_renamed(&name, own) {
                found.renamed.push(CriFile { name, identity, length: metadata.len() });
            }
        }
        // kubelet's suffix is the time of the rotation, so the names of newer files are greater.
        found.renamed.sort_by(|one, other| other.name.cmp(&one.name));
        Ok(found)
    }

    /// The file in which `position` starts, and all newer files. None if the position's file no longer exists.
    pub fn since(&self, position: &OutputPosition) -> Option<WrittenSince<'_>> {
        let origin = self.all().find(|file| file.identity == position.file)?;
        let mut later: Vec<&CriFile> = self.others(&origin.identity).collect();
        later.retain(|file| !position.older.contains(&file.identity));
        later.reverse();
        let known = |file: &CriFile| position.newer.iter().position(|of| *of == file.identity);
        later.sort_by_key(|file| known(file).unwrap_or(usize::MAX));
        let total = origin.length + later.iter().map(|file| file.length).sum::<u64>();
        let is_renamed = self.current.is_none() && !self.link;
        Some(WrittenSince { total, origin, later, is_renamed })
    }

    /// All files except `one`.
    pub fn others(&self, one: &Identity) -> impl Iterator<Item = &CriFile> {
        self.all().filter(move |file| file.identity != *one)
    }

    fn all(&self) -> impl Iterator<Item = &CriFile> {
        self.current.iter().chain(&self.renamed)
    }
}

impl WrittenSince<'_> {
    /// If neither a file nor a link has the log's own name, the name of the newest file, in which the writer continues.
    pub fn newest_if_renamed(&self) -> Option<&OsStr> {
        let newest = self.later.last().unwrap_or(&self.origin);
        self.is_renamed.then_some(newest.name.as_os_str())
    }

    /// The file of the position, and the newer files.
    pub fn files(&self) -> impl Iterator<Item = &CriFile> {
        std::iter::once(self.origin).chain(self.later.iter().copied())
    }

    /// The files that are newer than the position's file, in the order in which they were written.
    pub fn newer(&self) -> Vec<Identity> {
        self.later.iter().map(|file| file.identity).collect()
    }
}

/// Whether `name` is the name of a log that kubelet has renamed and not compressed.
pub fn is_renamed(name: &OsStr, own: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(own.as_encoded_bytes());
    let compressed = |rest: &&[u8]| rest.ends_with(b".gz") || rest.ends_with(b".tmp");
    rest.is_some_and(|rest| rest.starts_with(b".") && !compressed(&rest))
}
