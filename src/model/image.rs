//! The request to pull an image, its credentials, and the space that images use.

use std::{fmt, path::PathBuf};

use super::{reference::ImageReference, time::Nanos};

/// A validated PullImage request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PullRequest {
    /// What to pull; always carries a tag or a digest (Docker pulls *every* tag without one).
    pub reference: ImageReference,
    /// Credentials; none for an anonymous pull.
    pub credentials: Option<Credentials>,
}

/// A registry credential, as CRI's `AuthConfig` has it.
///
/// `Debug` shows only the registry.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials {
    pub username: String,
    pub password: String,
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

/// The file system of images and writable layers, and how much images use of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// Directory of the images; kubelet finds its device.
    pub mountpoint: PathBuf,
    /// Bytes of all image layers, each counted once.
    pub image_bytes: u64,
    /// Inodes that any program uses on the file system. None if the file system does not count them.
    pub inodes: Option<u64>,
    pub measured_at: Nanos,
}
