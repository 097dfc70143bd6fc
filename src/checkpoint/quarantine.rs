//! Moves files that cannot be trusted to `quarantine/`. They are kept for the operator, and the next start
//! ignores them.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use super::record::Quarantined;
use crate::host::{error::HostError, file};

/// Moves `path` into `quarantine` under a name that is free there, and reports it.
///
/// A file that cannot be moved stays where it is; the report then says so.
pub(super) fn move_aside(path: &Path, quarantine: &Path, reason: &str) -> Quarantined {
    match moved(path, quarantine) {
        Ok(path) => Quarantined { path, reason: reason.to_owned() },
        Err(error) => {
            let reason = format!("{reason}; cannot move it to quarantine: {}", error.source);
            Quarantined { path: path.to_owned(), reason }
        }
    }
}

fn moved(path: &Path, quarantine: &Path) -> Result<PathBuf, HostError> {
    file::ensure_directory(quarantine, DIRECTORY_MODE)?;
    let target = free_name(path, quarantine)?;
    fs::rename(path, &target).map_err(|e| HostError::new("move aside", path, e))?;
    Ok(target)
}

/// The first free name of `name`, `name.1`, `name.2` and so on. Only one dockbridge uses a state directory,
/// so no other process can take the name in the meantime.
fn free_name(path: &Path, quarantine: &Path) -> Result<PathBuf, HostError> {
    let name = path.file_name().unwrap_or_default();
    (0..u32::MAX)
        .map(|serial| quarantine.join(numbered(name.to_owned(), serial)))
        .find(|target| fs::symlink_metadata(target).is_err())
        .ok_or_else(|| {
            let full = io::Error::from(io::ErrorKind::AlreadyExists);
            HostError::new("find a free name in", quarantine, full)
        })
}

fn numbered(mut name: OsString, serial: u32) -> OsString {
    if serial > 0 {
        name.push(format!(".{serial}"));
    }
    name
}

pub(super) const DIRECTORY_MODE: u32 = 0o700;
