//! Saves the position of each log in a file: `<id>.json` for each container.
//!
//! The files with positions are written often, and read only at a start of dockbridge or after a panic. dockbridge does
//! not flush them to disk: if a container's file is lost or damaged, dockbridge searches the engine's log files of this
//! container for the place to continue.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::position::Position;
use crate::{
    host::{
        error::OrCannot as _,
        file::{self, Durability},
    },
    model::{id::ContainerId, time::Nanos},
};

/// The directory of the files with positions. The methods that use files block the thread.
#[derive(Clone, Debug)]
pub(super) struct PositionStore {
    directory: PathBuf,
}

/// The saved state of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Saved {
    version: u32,
    /// The position up to which the log was written; None if unknown.
    pub(super) position: Option<Position>,
    /// The start time of the run whose whole log was written; None if the engine may have more output.
    pub(super) complete: Option<Nanos>,
}

impl Saved {
    pub(super) fn new(position: Option<Position>, complete: Option<Nanos>) -> Self {
        Self { version: VERSION, position, complete }
    }
}

impl PositionStore {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Reads the saved states of all logs. Removes unfinished drafts.
    pub(super) fn load(&self) -> HashMap<ContainerId, Saved> {
        let mut all = HashMap::new();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if file::is_draft(&entry.file_name().to_string_lossy()) {
                // If the draft cannot be removed, it stays and is ignored.
                let _ = fs::remove_file(&path);
            }
            let Some(id) = id_of(&path) else { continue };
            let saved = read(&path).filter(|saved| saved.version == VERSION);
            // An unusable file gets an empty state, so that it is removed together with the container.
            all.insert(id, saved.unwrap_or_default());
        }
        all
    }

    /// The saved state of one log; None if it cannot be read.
    pub(super) fn read(&self, id: &ContainerId) -> Option<Saved> {
        read(&self.path(id))
    }

    pub(super) fn save(&self, id: &ContainerId, saved: &Saved) {
        let written = serde_json::to_vec(saved).map_err(std::io::Error::from);
        let written = written.or_cannot("encode", &self.path(id)).and_then(|bytes| {
            file::ensure_directory(&self.directory, MODE)?;
            file::replace(&self.path(id), &bytes, Durability::Written)
        });
        if let Err(error) = written {
            warn!(container = %id, error = crate::error::chain(&error), "cannot save the position in Docker's log of a container; unless a later save succeeds, dockbridge reads more of this log again at its next start");
        }
    }

    pub(super) fn remove(&self, id: &ContainerId) {
        if let Err(error) = file::remove_if_present(&self.path(id), Durability::Written) {
            warn!(container = %id, error = crate::error::chain(&error), "cannot remove the saved position in Docker's log of a container; retrying at the next start of dockbridge");
        }
    }

    /// Removes all saved positions, which the log format `docker` does not need.
    pub(super) fn clear(&self) {
        for id in self.load().keys() {
            self.remove(id);
        }
    }

    fn path(&self, id: &ContainerId) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }
}

fn id_of(path: &Path) -> Option<ContainerId> {
    let name = path.file_name()?.to_str()?;
    ContainerId::try_from(name.strip_suffix(".json")?).ok()
}

fn read(path: &Path) -> Option<Saved> {
    let bytes = file::read_if_present(path, SIZE_LIMIT).ok()??;
    decode(&bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Option<Saved> {
    serde_json::from_slice(bytes).ok()
}

const VERSION: u32 = 2;
/// Only root may read the directory of positions.
const MODE: u32 = 0o700;
/// The size limit, in bytes, of a file with a position. dockbridge writes much smaller files.
const SIZE_LIMIT: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_unfinished_writes_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let positions = PositionStore::new(directory.path().to_owned());
        let id = ContainerId::try_from("a".repeat(64)).unwrap();
        positions.save(&id, &Saved::new(None, None));
        let draft = directory.path().join(format!(".{id}.json.99-14.tmp"));
        fs::write(&draft, "{").unwrap();
        assert_eq!(positions.load().into_keys().collect::<Vec<_>>(), [id]);
        assert!(!draft.exists());
    }
}
