//! The request to pull an image, its credentials, and the space that images use.

use std::{fmt, path::PathBuf};

use super::{reference::ImageReference, time::Nanos};

/// A validated PullImage request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PullRequest {
    /// The image to pull; always has a tag or a digest, because without either Docker would pull *every* tag.
    pub reference: ImageReference,
    pub credentials: Option<Credentials>,
}

/// Credentials for a registry: CRI's `AuthConfig`. `Debug` shows only the registry.
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

/// The file system of images and writable layers, and how much of it the images use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// The directory of the images, from which kubelet finds the device.
    pub mountpoint: PathBuf,
    /// The bytes of all image layers, each layer counted once; an estimate before the first measurement.
    pub image_bytes: u64,
    /// How many inodes of the file system are in use. None if unknown, or if the file system does not count inodes.
    pub inodes: Option<u64>,
    pub measured_at: Nanos,
}
