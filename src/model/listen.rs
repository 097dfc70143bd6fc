//! Where the CRI is served.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The socket on which the CRI is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A path. If a systemd socket unit already listens there, its socket is used. Otherwise dockbridge
    /// creates one.
    Path(PathBuf),
    /// The sockets of a systemd socket unit: all of them, or those with this name or file descriptor.
    Inherited(Option<String>),
}

impl Listen {
    /// The path, if it is known without asking systemd.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Inherited(_) => None,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Inherited(name) => write!(f, "fd://{}", name.as_deref().unwrap_or_default()),
        }
    }
}
