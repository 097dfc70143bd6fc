//! The directory with each container's edits, which the server writes and dockbridge-runtime reads.
//!
//! ```text
//! /run/dockbridge-runtime/<container id>/edits.json    what to change
//!                                        root, mounts  mounts that dockbridge-runtime has made
//!                                        restored      says: restored, not started yet
//!                                        begun         says: restored and started
//!                                        filter        bundle from which its seccomp filter is read
//! ```
//!
//! Only root can write in the directory of edits, and dockbridge-runtime accepts no file that others can change.
//! Only root and the group of a pod's mapped root can enter a container's directory, so that others cannot run
//! set-user-ID programs of the image or a volume. A reboot deletes the directory of edits, and ends all containers.

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

/// The directory with the edits of all containers. Clones use the same directory.
#[derive(Clone, Debug)]
pub struct EditsDirectory {
    root: PathBuf,
}

impl Default for EditsDirectory {
    /// The directory that the dockbridge server and dockbridge-runtime use.
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
    /// Uses another directory, for tests.
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The directory of one container, below the directory of edits.
    pub fn of(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// The file with a container's edits.
    pub fn file(&self, id: &str) -> PathBuf {
        self.of(id).join(FILE)
    }

    /// Writes the edits of a container, before the container is started.
    ///
    /// # Errors
    /// Fails if dockbridge cannot write to the directory.
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

    /// Reads the edits of a container; `None` if the container has no file.
    ///
    /// # Errors
    /// Fails if the file is unreadable, malformed or of an unsupported version, or if users other than root
    /// can change the file or its directories.
    pub fn read(&self, id: &str) -> Result<Option<OciEdits>, OciRuntimeError> {
        let Some(fields) = self.fields(id)? else { return Ok(None) };
        let malformed = |reason| OciRuntimeError::Malformed { path: self.file(id), reason };
        match version(&fields) {
            VERSION..=VERSION_WITH_RESTORE => {}
            newer if newer > VERSION_WITH_RESTORE => {
                return Err(malformed(format!(
                    "the file has version {newer}, and this dockbridge-runtime reads only up to version \
                     {VERSION_WITH_RESTORE}: update dockbridge-runtime"
                )));
            }
            older => {
                return Err(malformed(format!(
                    "the file has version {older}, and this dockbridge-runtime reads only version {VERSION} \
                     and newer: the container must be replaced, so delete its pod"
                )));
            }
        }
        serde_json::from_value(fields.into()).map(Some).map_err(|e| malformed(e.to_string()))
    }

    /// Reads those edits of a container that also apply to exec commands in it.
    pub fn read_for_commands(&self, id: &str) -> Result<Vec<SpecEdit>, OciRuntimeError> {
        let mut edits = self.read(id)?.unwrap_or_default().edits;
        edits.retain(SpecEdit::is_for_commands);
        Ok(edits)
    }

    /// The engine's id in a container's edits file, whatever the file's version. `None` if there is no file.
    ///
    /// # Errors
    /// Fails if the file is unreadable or malformed, or if users other than root can change it or its directories.
    pub fn engine(&self, id: &str) -> Result<Option<String>, OciRuntimeError> {
        let engine = |fields: Map<String, Value>| Some(fields.get("engine")?.as_str()?.to_owned());
        Ok(self.fields(id)?.map(|fields| engine(fields).unwrap_or_default()))
    }

    /// Program and arguments of the runtime that the container's edits file names, if any. An unreadable edits file
    /// counts as empty, so that the container can end. Before a start, [`Self::read`] reports an unreadable file.
    pub(super) fn runtime(&self, id: &str) -> Vec<OsString> {
        let fields = self.fields(id).unwrap_or_default().unwrap_or_default();
        let words = fields.get("runtime").and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).map(OsString::from).collect()
    }

    fn fields(&self, id: &str) -> Result<Option<Map<String, Value>>, OciRuntimeError> {
        let path = self.file(id);
        let Some(bytes) = file::read_if_present(&path, MAX_FILE)? else { return Ok(None) };
        for owned in [self.root.as_path(), &self.of(id), &path] {
            // dockbridge-runtime does as root what the file says.
            if !file::is_ours_alone(owned)? {
                let reason = "users other than root can change this path, so the container's edits.json is not trusted";
                let (path, reason) = (owned.to_owned(), reason.to_owned());
                return Err(OciRuntimeError::Malformed { path, reason });
            }
        }
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| OciRuntimeError::Malformed { path, reason: e.to_string() })
    }

    /// The dump for the next start. `None` if the container has no dump or has already been started.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn restore(&self, id: &str) -> Result<Option<PathBuf>, OciRuntimeError> {
        let restore = self.read(id)?.unwrap_or_default().restore;
        Ok(restore.filter(|_| !self.of(id).join(BEGUN).exists()))
    }

    /// Bundle of the auxiliary container that provides the seccomp filter of container `id`.
    pub(super) fn filter(&self, id: &str) -> PathBuf {
        self.of(id).join(FILTER)
    }

    /// Records that a container was restored: a restored container runs before the engine's `start`.
    pub(super) fn mark_restored(&self, id: &str) -> Result<(), HostError> {
        file::replace(&self.of(id).join(RESTORED), &[], Durability::Written)
    }

    /// Records that a restored container was started. Returns whether it was restored and not started before.
    pub(super) fn take_restored(&self, id: &str) -> Result<bool, HostError> {
        let restored = self.of(id).join(RESTORED);
        let renamed = file::if_there(fs::rename(&restored, self.of(id).join(BEGUN)));
        Ok(renamed.or_cannot("rename", &restored)?.is_some())
    }

    /// Makes the directory of a container's mounts, and returns the path for the mount with this number.
    pub(super) fn mount_point(&self, id: &str, index: usize) -> Result<PathBuf, HostError> {
        let directory = self.of(id).join(MOUNTS);
        file::ensure_passable(&directory)?;
        Ok(directory.join(index.to_string()))
    }

    /// Whether dockbridge-runtime has mounted something for a container.
    pub fn has_mounts(&self, id: &str) -> bool {
        let directory = self.of(id);
        [ROOT, MOUNTS].iter().any(|name| directory.join(name).exists())
    }

    /// Unmounts everything that dockbridge-runtime mounted for a container, if anything. Keeps the edits.
    pub fn unmount(&self, id: &str) -> Result<(), HostError> {
        let directory = self.of(id);
        let mounts = directory.join(MOUNTS);
        for point in [vec![directory.join(ROOT)], entries(&mounts)?].concat() {
            id_map::unmount(&point)?;
        }
        remove_directory(&mounts)
    }

    /// Removes the mounts and files of a removed container. Succeeds if there are none.
    ///
    /// # Errors
    /// Fails if a mount or file cannot be removed, or if the container's directory has a file that is not dockbridge's.
    pub fn remove(&self, id: &str) -> Result<(), HostError> {
        self.unmount(id)?;
        let directory = self.of(id);
        // A killed dockbridge-runtime may have left the bundle for the seccomp filter.
        file::if_there(fs::remove_dir_all(self.filter(id))).or_cannot("remove", &directory)?;
        for path in entries(&directory)? {
            let is_ours = |name| [FILE, RESTORED, BEGUN].contains(&name) || file::is_draft(name);
            if name(&path).is_some_and(is_ours) {
                file::remove_if_present(&path, Durability::Written)?;
            }
        }
        remove_directory(&directory)
    }

    /// Ids of all containers that have a directory here, perhaps without edits.
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

fn remove_directory(path: &Path) -> Result<(), HostError> {
    file::if_there(fs::remove_dir(path)).or_cannot("remove directory", path).map(drop)
}

const DIRECTORY: &str = "/run/dockbridge-runtime";
const FILE: &str = "edits.json";
const RESTORED: &str = "restored";
const BEGUN: &str = "begun";
const FILTER: &str = "filter";
/// Name of the mount point of the root file system, in a container's directory.
pub(super) const ROOT: &str = "root";
/// Name of the directory of all mount points except [`ROOT`], in a container's directory.
const MOUNTS: &str = "mounts";
/// Maximum size of an edits file in bytes. All labels of a container together may be as large.
const MAX_FILE: u64 = 4 << 20;
