//! Containers that start from a container checkpoint, and the files in a checkpoint archive.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    container::ContainerSpec,
    id::{ContainerId, ImageId, SandboxId},
    sandbox::SandboxSpec,
};

/// The container checkpoint that the first start of a container restores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restore {
    /// An archive in the directory of the setting `restore-dir` or in a direct subdirectory.
    Archive {
        path: PathBuf,
        /// SHA-256 digest of `config.dump` and `spec.dump` in the archive, as CreateContainer read them.
        documents: String,
    },
    /// An image that contains the files of a checkpoint archive.
    Image(ImageId),
}

/// Content of [`POD_INDEX`], the file of a pod checkpoint that dockbridge writes last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodIndex {
    pub version: u32,
    pub sandbox: SandboxSpec,
    /// Names of the checkpointed containers; [`archive_name`] turns each into the name of its archive.
    pub containers: Vec<String>,
}

/// The request of RestorePod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodRestoreSpec {
    /// Absolute path of the directory that CheckpointPod wrote.
    pub checkpoint: PathBuf,
    pub sandbox: SandboxSpec,
    pub containers: Vec<ContainerSpec>,
}

/// The pod that RestorePod has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredPod {
    pub sandbox: SandboxId,
    pub containers: Vec<(String, ContainerId)>,
}

/// The name of a container's archive in the directory of a pod checkpoint.
pub fn archive_name(container: &str) -> String {
    format!("{container}.tar")
}

/// Name of the file that describes a checkpointed pod, in the directory of the pod checkpoint.
pub const POD_INDEX: &str = "pod.json";
/// The only version of [`POD_INDEX`] that dockbridge writes and reads.
pub const POD_VERSION: u32 = 1;
/// Name of the directory with CRIU's images in a checkpoint archive.
pub const IMAGES: &str = "checkpoint";
/// Name of the tar file with the files that the container added or changed.
pub const ROOTFS_DIFF: &str = "rootfs-diff.tar";
/// Name of the file that lists the image's files that the container deleted.
pub const DELETED_FILES: &str = "deleted.files";
