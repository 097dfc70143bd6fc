//! Where a log is: a name below a directory that is the caller's.
//!
//! Pods may be able to write to their log directory or next to it, so no link there is followed.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// A log's place. The way to the directory may have links; the directory and what is below it may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPath {
    root: PathBuf,
    name: PathBuf,
}

impl LogPath {
    /// Below the pod's log directory. Where that is not known, the layout is taken to
    /// be the kubelet's: a directory for each container. None when there is no place for a name.
    pub fn of(log_path: &Path, log_directory: Option<&Path>) -> Option<Self> {
        let within =
            |root: &&Path| log_path.strip_prefix(root).is_ok_and(|name| name != Path::new(""));
        let root = log_directory.filter(within).or_else(|| log_path.parent()?.parent())?;
        let name = log_path.strip_prefix(root).ok()?;
        Some(Self { root: root.to_owned(), name: name.to_owned() })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name below it.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Another name in the same directory below the root.
    pub fn beside(&self, name: &OsStr) -> PathBuf {
        self.name.with_file_name(name)
    }

    /// Both together, for messages.
    pub fn full(&self) -> PathBuf {
        self.root.join(&self.name)
    }
}
