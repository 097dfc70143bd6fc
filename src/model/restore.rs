//! Containers that start from a checkpoint, and the files in its archive.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::id::ImageId;

/// The dump from which a container starts for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restore {
    /// An archive in the directory of the setting `restore-dir`.
    Archive(PathBuf),
    /// An image that has the files of an archive.
    Image(ImageId),
}

/// The directory of CRIU's images, in an archive and where one is made.
pub const IMAGES: &str = "checkpoint";
/// The files that the container added or changed.
pub const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// The files of the image that the container deleted.
pub const DELETED_FILES: &str = "deleted.files";
