//! Which server uses an engine: a lock named after the engine, in a directory that no setting changes.
//!
//! Two servers of one engine would adopt each other's pods, write the same logs and remove each other's
//! objects. They find the same file, whichever socket of the engine they use.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::address;
use crate::{
    host::{
        error::HostError,
        file,
        lock::{Holder, Lock, LockError},
    },
    model::engine::EngineInfo,
};

/// The directory with the locks of all engines of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineLocks {
    directory: PathBuf,
}

impl Default for EngineLocks {
    fn default() -> Self {
        Self::at(DIRECTORY)
    }
}

impl EngineLocks {
    /// Locks in another directory, for tests.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The file of an engine's lock; none if the engine has no id.
    pub fn file(&self, engine: &EngineInfo) -> Option<PathBuf> {
        Some(self.directory.join(name(&engine.daemon_id, &engine.root_dir)?))
    }

    /// Takes the lock with this file for a server on `socket`. Does not wait. Fails if another server has
    /// the lock, or the file cannot be created.
    pub fn take(&self, file: &Path, socket: &Path) -> Result<Lock, LockError> {
        file::ensure_directory(&self.directory, DIRECTORY_MODE)?;
        Lock::take(file, socket)
    }

    /// The server that has the lock of the engine.
    pub fn holder(&self, engine: &EngineInfo) -> Result<Option<Holder>, HostError> {
        self.file(engine).map_or(Ok(None), |file| Lock::holder(&file))
    }
}

/// The engine's id as a file name. Docker 20.10 takes the id from a key in `/etc/docker`, so all engines of
/// a host have the same id. Therefore the data root is part of the name.
fn name(id: &str, root: &Path) -> Option<String> {
    if id.is_empty() {
        return None;
    }
    let root = root.to_string_lossy();
    let [id, root] = [id, &root].map(|text| utf8_percent_encode(text, NAME));
    let whole = format!("{id}@{root}");
    // A file name may have at most 255 bytes.
    let name = if whole.len() > LONGEST_NAME { hex::encode(Sha256::digest(&whole)) } else { whole };
    Some(format!("{name}.lock"))
}

/// `/run` is empty after a boot.
const DIRECTORY: &str = "/run/dockbridge-engines";
/// Any user who can open the file could lock it. Listing its directory is allowed.
const DIRECTORY_MODE: u32 = 0o755;
/// Bytes that are escaped in a file name.
const NAME: &AsciiSet = &address::QUERY.remove(b':');
const LONGEST_NAME: usize = 200;

#[cfg(test)]
mod tests;
