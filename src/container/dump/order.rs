//! Files in the detached program's directory: the order, which says what the program has to do, and its report.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    host::{
        error::{HostError, OrCannot as _},
        file::{self, Durability},
        freezer::Freezer,
    },
    model::restore::IMAGES,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) parts: Vec<Part>,
    /// The archives, and after them, for a pod, the index.
    pub(super) places: Vec<Place>,
}

/// A file of a container or pod checkpoint. If the disk supports hard links, the file keeps its temporary name beside
/// its final name until all files of the container or pod checkpoint have their final names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) draft: PathBuf,
    pub(super) location: PathBuf,
}

impl Place {
    /// The temporary name contains the beginning of `id`, the id of the container or pod.
    pub(super) fn new(location: PathBuf, id: &str) -> Self {
        let name = location.file_name().unwrap_or_default().to_string_lossy();
        let short = id.get(..SHORT_ID_LENGTH).unwrap_or(id);
        let draft = location.with_file_name(format!(".{name}.{short}.tmp"));
        Self { draft, location }
    }
}

/// A container to save.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) container: String,
    /// The subdirectory for the files of this container.
    pub(super) directory: PathBuf,
    /// The command line with which the OCI runtime saves the container.
    pub(super) command: Vec<String>,
    pub(super) freezer: Freezer,
    /// The writable layer.
    pub(super) layer: PathBuf,
}

impl Part {
    /// Thaws the container, if the detached program has begun to freeze it.
    pub(super) fn thaw(&self) -> Result<(), HostError> {
        let mark = self.directory.join(FROZEN);
        if mark.try_exists().unwrap_or(true) {
            self.freezer.thaw()?;
            // If the mark stays, the container might be thawed once more later.
            let _ = fs::remove_file(mark);
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) frozen_ms: u64,
    pub(super) failure: Option<Failure>,
}

/// Which container could not be saved, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) container: String,
    pub(super) cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cause {
    /// No caller waits for the container or pod checkpoint any more.
    Unwanted,
    /// The container was already frozen, for example by `docker pause`.
    Paused,
    /// The OCI runtime or CRIU failed. CRIU's log or the runtime's output has the reason.
    Runtime,
    /// Another step failed, for example the freeze, or somebody has thawed the container.
    Other { reason: String, is_disk_full: bool },
}

pub(super) fn write<T: Serialize>(directory: &Path, name: &str, body: &T) -> Result<(), HostError> {
    let path = directory.join(name);
    let bytes = serde_json::to_vec(body).or_cannot("write", &path)?;
    file::replace(&path, &bytes, Durability::Written)
}

/// None if the file does not exist.
pub(super) fn read<T: DeserializeOwned>(
    directory: &Path,
    name: &str,
) -> Result<Option<T>, HostError> {
    let path = directory.join(name);
    let Some(bytes) = file::read_if_present(&path, SIZE_LIMIT)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).or_cannot("read", &path)
}

/// The command line that makes the runtime dump a container into `directory`.
pub(super) fn command(runtime: &str, root: &Path, directory: &Path, id: &str) -> Vec<String> {
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    [
        runtime.to_owned(),
        "--root".to_owned(),
        shown(root),
        "checkpoint".to_owned(),
        "--leave-running".to_owned(),
        // Also saves locks on files, which databases use.
        "--file-locks".to_owned(),
        "--image-path".to_owned(),
        shown(&directory.join(IMAGES)),
        "--work-path".to_owned(),
        shown(directory),
        id.to_owned(),
    ]
    .into()
}

pub(super) const ORDER: &str = "order.json";
/// The name of the order file after the next dockbridge process has renamed it.
pub(super) const TAKEN: &str = "order.taken.json";
/// dockbridge creates this file when no caller waits for the container or pod checkpoint any more.
pub(super) const UNWANTED: &str = "unwanted";
/// How many digits of the id a temporary name contains.
const SHORT_ID_LENGTH: usize = 12;
/// This file exists in a container's directory if the detached program has begun to freeze the container, and
/// neither the program nor dockbridge has thawed it. Without the file, a frozen container was paused by somebody else.
pub(super) const FROZEN: &str = "frozen";
pub(super) const REPORT: &str = "report.json";
/// CRIU's log, which the archive also contains.
pub(super) const LOG: &str = "dump.log";
const SIZE_LIMIT: u64 = 1 << 20;
