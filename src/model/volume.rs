//! An image mounted into a container: where the mount comes from.

use std::path::PathBuf;

/// The source of one image volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageVolume {
    /// The engine mounts the image itself.
    Engine {
        /// The image in the spelling to use for this mount.
        source: String,
    },
    /// The image, or its sub path, is unpacked under a path of this host.
    Folder {
        /// Absolute.
        path: PathBuf,
    },
}
