//! The directory with the edits of each container. The server writes them and the runtime reads them.
//!
//! ```text
//! /run/dockbridge-runtime/<container id>/edits.json    what to change
//!                                        root, mounts  what the runtime mounted for it
//!                                        restored      it was restored, and not started yet
//!                                        begun         it was restored before
//!                                        filter        bundle of the container that has its seccomp filter
//! ```
//!
//! Only root can write here, so a file is trusted without a signature. A container is found by its id,
//! which no other container can have. Only root and the group of a pod's mapped root can enter a
//! container's directory: other users of the host could run set-user-ID programs of the image and of
//! volumes there. The directory does not survive a reboot, and pods do not either.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::{Map, Value};

use super::error::OciRuntimeError;
use crate::{
    host::{
        error::{HostError, OrCannot as _},
        file::{self, Durability},
        id_map,
    },
    model::{
        oci_edits::{OciEdits, VERSION, VERSION_WITH_RESTORE, VERSION_WITH_RUNTIME},
        spec_edit::SpecEdit,
    },
};

/// The directory with the edits of each container. Clones use the same directory.
#[derive(Clone, Debug)]
pub struct EditsDirectory {
    root: PathBuf,
}

impl Default for EditsDirectory {
    /// The directory that server and runtime share.
    fn default() -> Self {
        Self::new(PathBuf::from(DIRECTORY))
    }
}

#[derive(Serialize)]
struct File {
    version: u32,
    #[serde(flatten)]
    edits: OciEdits,
}

impl EditsDirectory {
    /// A directory for tests.
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory of a container.
    pub fn of(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// The file with a container's edits.
    pub fn file(&self, id: &str) -> PathBuf {
        self.of(id).join(FILE)
    }

    /// Writes the edits of a container, before it is started.
    ///
    /// # Errors
    /// The directory cannot be written, or users other than root can write to it.
    pub fn write(&self, id: &str, edits: &OciEdits) -> Result<(), HostError> {
        file::ensure_passable(&self.root)?;
        let directory = self.of(id);
        file::ensure_passable_by(&directory, edits.users.map(|users| users.gids.host))?;
        let path = self.file(id);
        let version = match edits {
            OciEdits { restore: Some(_), .. } => VERSION_WITH_RESTORE,
            OciEdits { runtime, .. } if runtime.is_empty() => VERSION,
            _ => VERSION_WITH_RUNTIME,
        };
        let bytes = serde_json::to_vec(&File { version, edits: edits.clone() })
            .or_cannot("encode", &path)?;
        file::replace(&path, &bytes, Durability::Written)
    }

    /// The edits of a container; none if it has no file.
    ///
    /// # Errors
    /// The file is unreadable, malformed or of another version, or users other than root can write to it.
    pub fn read(&self, id: &str) -> Result<Option<OciEdits>, OciRuntimeError> {
        let Some(fields) = self.fields(id)? else { return Ok(None) };
        let malformed = |reason| OciRuntimeError::Malformed { path: self.file(id), reason };
        match version(&fields) {
            VERSION..=VERSION_WITH_RESTORE => {}
            newer if newer > VERSION_WITH_RESTORE => {
                return Err(malformed(format!(
                    "version {newer} is newer than version {VERSION_WITH_RESTORE} of this runtime: update \
                     dockbridge-runtime"
                )));
            }
            older => {
                return Err(malformed(format!(
                    "version {older} is older than version {VERSION} of this runtime: the container \
                     must be replaced, so delete its pod"
                )));
            }
        }
        serde_json::from_value(fields.into()).map(Some).map_err(|e| malformed(e.to_string()))
    }

    /// The edits that also apply to commands in a running container.
    pub fn read_for_commands(&self, id: &str) -> Result<Vec<SpecEdit>, OciRuntimeError> {
        let mut edits = self.read(id)?.unwrap_or_default().edits;
        edits.retain(SpecEdit::is_for_commands);
        Ok(edits)
    }

    /// The engine in the file of a container's edits, of any version; none if there is no file.
    ///
    /// # Errors
    /// The file is unreadable or malformed, or users other than root can write to it.
    pub fn engine(&self, id: &str) -> Result<Option<String>, OciRuntimeError> {
        let engine = |fields: Map<String, Value>| Some(fields.get("engine")?.as_str()?.to_owned());
        Ok(self.fields(id)?.map(|fields| engine(fields).unwrap_or_default()))
    }

    /// The program and arguments of the runtime that the file names; empty if it names none. A file that cannot
    /// be read must not prevent the end of a container. Before its start, [`Self::read`] reports it.
    pub(super) fn runtime(&self, id: &str) -> Vec<OsString> {
        let fields = self.fields(id).unwrap_or_default().unwrap_or_default();
        let words = fields.get("runtime").and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).map(OsString::from).collect()
    }

    fn fields(&self, id: &str) -> Result<Option<Map<String, Value>>, OciRuntimeError> {
        let path = self.file(id);
        let Some(bytes) = file::read_if_present(&path, MAX_FILE)? else { return Ok(None) };
        for owned in [self.root.as_path(), &self.of(id), &path] {
            refuse_foreign(owned)?;
        }
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| OciRuntimeError::Malformed { path, reason: e.to_string() })
    }

    /// The dump with which the container is to begin. None if it has begun.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn restore(&self, id: &str) -> Result<Option<PathBuf>, OciRuntimeError> {
        let restore = self.read(id)?.unwrap_or_default().restore;
        Ok(restore.filter(|_| !self.of(id).join(BEGUN).exists()))
    }

    /// The bundle of the container that is made for the seccomp filter of another one.
    pub(super) fn filter(&self, id: &str) -> PathBuf {
        self.of(id).join(FILTER)
    }

    /// Records that a container runs although it was not started.
    pub(super) fn mark_restored(&self, id: &str) -> Result<(), HostError> {
        file::replace(&self.of(id).join(RESTORED), &[], Durability::Written)
    }

    /// Records that the container was started. Returns whether it was restored and not started.
    pub(super) fn take_restored(&self, id: &str) -> Result<bool, HostError> {
        let restored = self.of(id).join(RESTORED);
        let renamed = file::if_there(fs::rename(&restored, self.of(id).join(BEGUN)));
        Ok(renamed.or_cannot("rename", &restored)?.is_some())
    }

    /// Whether the runtime mounted something for a container.
    pub fn has_mounts(&self, id: &str) -> bool {
        let directory = self.of(id);
        [ROOT, MOUNTS].iter().any(|name| directory.join(name).exists())
    }

    /// Unmounts what the runtime mounted for a container. The edits stay. Succeeds if nothing is mounted.
    pub fn unmount(&self, id: &str) -> Result<(), HostError> {
        let directory = self.of(id);
        let mounts = directory.join(MOUNTS);
        for point in [vec![directory.join(ROOT)], entries(&mounts)?].concat() {
            id_map::unmount(&point)?;
        }
        remove_directory(&mounts)
    }

    /// Removes everything that is left of a removed container. Succeeds if nothing is left.
    ///
    /// # Errors
    /// No permission, or the directory contains a file that is not ours.
    pub fn remove(&self, id: &str) -> Result<(), HostError> {
        self.unmount(id)?;
        let directory = self.of(id);
        // The runtime removes it, unless it was killed.
        file::if_there(fs::remove_dir_all(self.filter(id))).or_cannot("remove", &directory)?;
        for path in entries(&directory)? {
            let is_ours = |name| [FILE, RESTORED, BEGUN].contains(&name) || file::is_draft(name);
            if name(&path).is_some_and(is_ours) {
                file::remove_if_present(&path, Durability::Written)?;
            }
        }
        remove_directory(&directory)
    }

    /// The containers that have a directory.
    pub fn ids(&self) -> Result<Vec<String>, HostError> {
        Ok(entries(&self.root)?.iter().filter_map(|path| name(path).map(str::to_owned)).collect())
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, HostError> {
    file::entries(directory).or_cannot("list", directory)
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn version(fields: &Map<String, Value>) -> u32 {
    let version = fields.get("version").and_then(Value::as_u64).unwrap_or_default();
    u32::try_from(version).unwrap_or(u32::MAX)
}

/// Refuses a file of another owner, because root follows its instructions.
fn refuse_foreign(path: &Path) -> Result<(), OciRuntimeError> {
    if file::is_ours_alone(path)? {
        return Ok(());
    }
    let reason = "users other than root can change the file, so it is not trusted".to_owned();
    Err(OciRuntimeError::Malformed { path: path.to_owned(), reason })
}

fn remove_directory(path: &Path) -> Result<(), HostError> {
    file::if_there(fs::remove_dir(path)).or_cannot("remove directory", path).map(drop)
}

/// This file system is lost at a reboot, as containers are.
const DIRECTORY: &str = "/run/dockbridge-runtime";
const FILE: &str = "edits.json";
const RESTORED: &str = "restored";
const BEGUN: &str = "begun";
const FILTER: &str = "filter";
/// The mount point of the root file system.
pub(super) const ROOT: &str = "root";
/// The directory of the other mount points.
pub(super) const MOUNTS: &str = "mounts";
/// Much more than a container can need; a pod's labels are limited to less.
const MAX_FILE: u64 = 4 << 20;
