//! CheckpointContainer and CheckpointPod. In this code a checkpoint of containers is called a dump, because checkpoints
//! are also the files of the state directory.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    record::{ContainerRecord, ImageRecord, SandboxRecord},
    time::Nanos,
};

/// The containers to dump, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpSpec {
    /// The pod of the containers, if this is CheckpointPod.
    pub sandbox: Option<String>,
    /// One for CheckpointContainer.
    pub containers: Vec<String>,
    /// Absolute path of the archive, or of an empty directory for the archives of a pod.
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
