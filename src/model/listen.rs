//! Where the CRI is served.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The socket, or the sockets, on which the CRI is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// The path of a socket. dockbridge creates the socket, unless systemd passes a socket with this path.
    Path(PathBuf),
    /// The sockets that a systemd socket unit passes: all, or those with this name or descriptor.
    Inherited(Option<String>),
}

/// cri-dockerd's default for `--container-runtime-endpoint`, which many unit files depend on. A dockbridge that
/// is started by the name `cri-dockerd` has the same default.
pub const CRI_DOCKERD_SOCKET: &str = "/var/run/cri-dockerd.sock";

impl Listen {
    /// The path of the socket. None if only systemd knows it.
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
