//! Image volumes: images that are mounted into a container.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::id::ImageId;

/// An image volume for a container's create request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageVolume {
    pub image: ImageId,
    pub source: VolumeSource,
}

/// The source of an image volume's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// The engine mounts the image itself.
    Engine {
        /// Relative path in the image, with all links resolved. Empty means the whole image.
        sub_path: String,
    },
    /// dockbridge has mounted the image at a directory, and the container gets a bind mount of `path`.
    Directory {
        /// Absolute path on this host. Links below the image's root are resolved.
        path: PathBuf,
    },
}

/// An image volume as a container's document stores it: a durable format, so a new field must have a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedImage {
    pub image: ImageId,
    /// Whether dockbridge mounted the image at a directory. If false, the engine itself mounts the image.
    #[serde(default)]
    pub unpacked: bool,
}

impl ImageVolume {
    /// The part of this volume that dockbridge stores.
    pub fn mounted(&self) -> MountedImage {
        let unpacked = matches!(self.source, VolumeSource::Directory { .. });
        MountedImage { image: self.image.clone(), unpacked }
    }
}
