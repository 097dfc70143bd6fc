//! Where the CRI is served.

use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The socket the CRI is served on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A path. A socket that a systemd socket unit has opened there is used; otherwise one is made.
    Path(PathBuf),
    /// The sockets of a systemd socket unit: all of them, or those with this name or descriptor.
    Inherited(Option<String>),
}

impl Listen {
    /// The path, if it is known without looking at what systemd passes on.
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
