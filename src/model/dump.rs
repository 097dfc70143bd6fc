//! CheckpointContainer, and containers that start from a checkpoint. In this code a checkpoint of a container is called
//! a dump, because checkpoints are also the files of the state directory.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    id::ImageId,
    record::{ContainerRecord, ImageRecord, SandboxRecord},
    time::Nanos,
};

/// The container to dump, and the archive to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpSpec {
    pub container: String,
    /// Absolute path of the archive.
    pub location: PathBuf,
    /// None if only the caller's own deadline counts.
    pub timeout: Option<Duration>,
}

/// What the archive says about a dumped container.
#[derive(Clone, Debug)]
pub struct DumpedContainer {
    pub record: Arc<ContainerRecord>,
    /// Its image, while that exists.
    pub image: Option<Arc<ImageRecord>>,
    /// Its pod, while that is known.
    pub sandbox: Option<Arc<SandboxRecord>>,
    /// The `config.json` of its bundle.
    pub config: Value,
    /// The name of its OCI runtime.
    pub runtime: String,
    pub mounts: Vec<BindMount>,
    pub at: Nanos,
}

/// A mount whose source is on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    pub source: String,
    pub destination: String,
    pub is_directory: bool,
    pub permissions: u32,
}

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
