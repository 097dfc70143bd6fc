//! CheckpointContainer and CheckpointPod. In this code a container checkpoint is called a dump, because the
//! module `checkpoint` writes the checkpoint files of the state directory.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    record::{ContainerRecord, ImageRecord, SandboxRecord},
    time::Nanos,
};

/// The containers to checkpoint, and the path to write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpSpec {
    /// The pod of the containers, if the call is CheckpointPod.
    pub sandbox: Option<String>,
    /// The ids of the containers; exactly one for CheckpointContainer.
    pub containers: Vec<String>,
    /// The absolute path of the archive, or of an empty directory for the archives of a pod.
    pub location: PathBuf,
    /// The time limit in the request. None if only the gRPC deadline of the caller counts.
    pub timeout: Option<Duration>,
}

/// The data for the files that describe a container in its checkpoint archive.
#[derive(Clone, Debug)]
pub struct DumpedContainer {
    pub record: Arc<ContainerRecord>,
    /// The container's image, if it still exists.
    pub image: Option<Arc<ImageRecord>>,
    /// The container's pod, if dockbridge knows it.
    pub sandbox: Option<Arc<SandboxRecord>>,
    pub config: Value,
    pub runtime: String,
    pub mounts: Vec<BindMount>,
    pub at: Nanos,
}

/// A mount that shows a file or directory of the host in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    pub source: String,
    pub destination: String,
    pub is_directory: bool,
    pub permissions: u32,
}
