//! The CRI files of one log: the current one and those that kubelet has rotated.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use super::{
    error::LogError,
    log_path::LogPath,
    position::{Identity, Position},
};
use crate::host::beneath;

/// A CRI file in a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriFile {
    pub name: OsString,
    pub identity: Identity,
    pub length: u64,
}

/// All files of a log.
#[derive(Debug, Default)]
pub struct CriFiles {
    /// Whether there is a symbolic link with the log's name.
    pub link: bool,
    current: Option<CriFile>,
    /// Files named like the log with a suffix, in descending order of their names.
    renamed: Vec<CriFile>,
}

impl CriFiles {
    /// Lists the files, without those that kubelet has compressed.
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
        // kubelet's suffix is the time of the rotation.
        found.renamed.sort_by(|one, other| other.name.cmp(&one.name));
        Ok(found)
    }

    /// If no file has the log's own name: the newest file, which is then continued. None if the file of the
    /// position is gone.
    pub fn newest_if_renamed(&self, position: &Position) -> Option<&CriFile> {
        if self.current.is_some() || self.link {
            return None;
        }
        let known = self.renamed.iter().find(|file| file.identity == position.file)?;
        let newer = |file: &&CriFile| !position.older.contains(&file.identity);
        Some(self.others(&position.file).find(newer).unwrap_or(known))
    }

    /// All files but one, the newest first.
    pub fn others(&self, one: &Identity) -> impl Iterator<Item = &CriFile> {
        self.current.iter().chain(&self.renamed).filter(move |file| file.identity != *one)
    }
}

fn is_renamed(name: &OsStr, own: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(own.as_encoded_bytes());
    let compressed = |rest: &&[u8]| rest.ends_with(b".gz") || rest.ends_with(b".tmp");
    rest.is_some_and(|rest| rest.starts_with(b".") && !compressed(&rest))
}
