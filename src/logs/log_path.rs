//! The path of a log: a name below a directory that the caller trusts.
//!
//! A pod may be able to write to its log directory or next to it, so dockbridge does not follow links there.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// The path of a log. Neither the trusted directory nor a directory between it and the log may be a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPath {
    root: PathBuf,
    name: PathBuf,
}

impl LogPath {
    /// Splits a path at the pod's log directory. If the log directory is unknown or does not fit, assumes
    /// kubelet's layout, with a directory for each container. None if the path has too few components.
    pub fn of(log_path: &Path, log_directory: Option<&Path>) -> Option<Self> {
        let within =
            |root: &&Path| log_path.strip_prefix(root).is_ok_and(|name| name != Path::new(""));
        let root = log_directory.filter(within).or_else(|| log_path.parent()?.parent())?;
        let name = log_path.strip_prefix(root).ok()?;
        Some(Self { root: root.to_owned(), name: name.to_owned() })
    }

    /// The trusted directory, whose parents may be links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of the log below the root; it has at least one component.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The path of another file in the same directory as the log, below the root.
    pub fn sibling(&self, name: &OsStr) -> PathBuf {
        self.name.with_file_name(name)
    }

    /// The complete path, for messages.
    pub fn full(&self) -> PathBuf {
        self.root.join(&self.name)
    }
}
