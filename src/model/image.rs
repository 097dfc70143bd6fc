//! What a pull is asked for, the credentials it brings, and the space images take.

use std::{fmt, path::PathBuf};

use super::{reference::ImageReference, time::Nanos};

/// PullImage, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PullRequest {
    /// What to pull; always carries a tag or a digest (Docker pulls *every* tag without one).
    pub reference: ImageReference,
    /// Credentials; none for anonymous.
    pub credentials: Option<Credentials>,
}

/// A credential for a registry, in the form CRI's `AuthConfig` carried it.
///
/// `Debug` shows only whom it is for.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials {
    pub username: String,
    pub password: String,
    /// Registry the credential is for.
    pub server_address: String,
    pub identity_token: String,
    pub registry_token: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

/// The file system that images and writable layers are on, and what images take of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// Directory the images are in; kubelet resolves it to a device.
    pub mountpoint: PathBuf,
    /// Bytes of all image layers, each counted once.
    pub image_bytes: u64,
    /// Inodes in use on the file system by any program; none where it does not count them.
    pub inodes: Option<u64>,
    /// When the file system was read.
    pub measured_at: Nanos,
}
