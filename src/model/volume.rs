//! An image mounted into a container: the source of the mount, and what is stored about it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::id::ImageId;

/// One image volume, ready to be mounted.
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
        /// Relative path in the image without links; empty means the whole image.
        sub_path: String,
    },
    /// The image is unpacked on this host, and this path in it is bind-mounted.
    Directory {
        /// Absolute, without links below the image's root.
        path: PathBuf,
    },
}

/// An image volume in a container's document. A durable format: add fields with
/// defaults only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedImage {
    /// The image that the name in the mount referred to.
    pub image: ImageId,
    /// Whether its source is a directory of dockbridge instead of the engine's own mount.
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
