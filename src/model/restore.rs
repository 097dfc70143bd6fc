//! Containers that start from a checkpoint, and the files in its archive.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    container::ContainerSpec,
    id::{ContainerId, ImageId, SandboxId},
    sandbox::SandboxSpec,
};

/// The dump from which a container starts for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restore {
    /// An archive in the directory of the setting `restore-dir`.
    Archive {
        path: PathBuf,
        /// The SHA-256 digest of the documents in it that the request was compared with.
        documents: String,
    },
    /// An image that has the files of an archive.
    Image(ImageId),
}

/// The file [`POD_INDEX`] of a dumped pod, written after the archives of its containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodIndex {
    /// [`POD_VERSION`].
    pub version: u32,
    /// The configuration of the pod.
    pub sandbox: SandboxSpec,
    /// Names of the containers: see [`archive_name`].
    pub containers: Vec<String>,
}

/// The request of RestorePod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRestoreSpec {
    /// Absolute path of the directory that CheckpointPod wrote.
    pub checkpoint: PathBuf,
    pub sandbox: SandboxSpec,
    /// All containers of the checkpoint, each with its archive.
    pub containers: Vec<ContainerSpec>,
}

/// The pod that RestorePod has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredPod {
    pub sandbox: SandboxId,
    /// Names and ids.
    pub containers: Vec<(String, ContainerId)>,
}

/// The name of a container's archive in the directory of a dumped pod.
pub fn archive_name(container: &str) -> String {
    format!("{container}.tar")
}

/// The index in the directory of a dumped pod.
pub const POD_INDEX: &str = "pod.json";
/// The version of the index that is written. No other is read.
pub const POD_VERSION: u32 = 1;
/// The directory of CRIU's images, in an archive and where one is made.
pub const IMAGES: &str = "checkpoint";
/// The files that the container added or changed.
pub const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// The files of the image that the container deleted.
pub const DELETED_FILES: &str = "deleted.files";
