//! An image mounted into a container: where the mount comes from, and what is stored about it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::id::ImageId;

/// One image volume, ready to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageVolume {
    pub image: ImageId,
    pub source: VolumeSource,
}

/// Where the files of an image volume come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// The engine mounts the image itself.
    Engine {
        /// Path in the image, relative and free of links; empty means all of it.
        sub_path: String,
    },
    /// The image is unpacked on this host, and this path of it is bound.
    Directory {
        /// Absolute, free of links below the image's root.
        path: PathBuf,
    },
}

/// An image volume in a container's document. A durable format: add fields with
/// defaults only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedImage {
    /// The image that the mount's name meant.
    pub image: ImageId,
    /// Whether its files are a directory of ours instead of the engine's own mount.
    #[serde(default)]
    pub unpacked: bool,
}

impl ImageVolume {
    /// What is stored about it.
    pub fn mounted(&self) -> MountedImage {
        let unpacked = matches!(self.source, VolumeSource::Directory { .. });
        MountedImage { image: self.image.clone(), unpacked }
    }
}
