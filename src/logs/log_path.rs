//! The path of a log: a name below a directory from the caller.
//!
//! Pods may be able to write to their log directory or next to it, so links there are not followed.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// A log's path. The path to the directory may contain links. The directory itself and everything below it must
/// not be links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPath {
    root: PathBuf,
    name: PathBuf,
}

impl LogPath {
    /// The path below the pod's log directory. If that directory is unknown, kubelet's layout is assumed: a
    /// directory for each container. None if the path has no file name.
    pub fn of(log_path: &Path, log_directory: Option<&Path>) -> Option<Self> {
        let within =
            |root: &&Path| log_path.strip_prefix(root).is_ok_and(|name| name != Path::new(""));
        let root = log_directory.filter(within).or_else(|| log_path.parent()?.parent())?;
        let name = log_path.strip_prefix(root).ok()?;
        Some(Self { root: root.to_owned(), name: name.to_owned() })
    }

    /// The directory that the caller vouches for. Links on the way to it are followed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name below the root: at least one component.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Another name in the same directory below the root.
    pub fn beside(&self, name: &OsStr) -> PathBuf {
        self.name.with_file_name(name)
    }

    /// The complete path, for messages.
    pub fn full(&self) -> PathBuf {
        self.root.join(&self.name)
    }
}
