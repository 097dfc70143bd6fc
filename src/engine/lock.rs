//! The lock of an engine: a file named after the engine, in a directory that no setting changes.
//!
//! Two dockbridge processes with the same engine would adopt each other's pods and remove each other's
//! objects. The lock file is the same for all sockets of an engine.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::api_path;
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

    /// The lock file of an engine; None if the engine has no id.
    pub fn file(&self, engine: &EngineInfo) -> Option<PathBuf> {
        Some(self.directory.join(name(&engine.daemon_id, &engine.root_dir)?))
    }

    /// Takes the lock `file` for the dockbridge that serves the CRI on `socket`. Fails if another process has the lock.
    pub fn take(&self, file: &Path, socket: &Path) -> Result<Lock, LockError> {
        file::ensure_directory(&self.directory, DIRECTORY_MODE)?;
        Lock::take(file, socket)
    }

    /// The dockbridge that has the lock of the engine, if any.
    pub fn holder(&self, engine: &EngineInfo) -> Result<Option<Holder>, HostError> {
        self.file(engine).map_or(Ok(None), |file| Lock::holder(&file))
    }
}

/// The name of an engine's lock file; None without an id. Docker 20.10 takes the id from a key in `/etc/docker`,
/// so two engines of a host can have the same id, and therefore the name also depends on the engine's data root.
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

/// The directory of the locks is in `/run`, so that no old locks exist after a boot.
const DIRECTORY: &str = "/run/dockbridge-engines";
/// All users may list the directory. Lock files have the mode 0600, because a user who can open one could lock it.
const DIRECTORY_MODE: u32 = 0o755;
/// Bytes of the engine's id and data root that are percent-encoded in the name of the lock file.
const NAME: &AsciiSet = &api_path::QUERY.remove(b':');
const LONGEST_NAME: usize = 200;

#[cfg(test)]
mod tests;
