//! The types that [`super::directory`] stores, and the result of loading all checkpoint files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    host::file::Durability,
    model::{
        attachment::Attachment,
        document::SandboxDocument,
        id::{ContainerId, ImageId, SandboxId},
        resources::{PodResources, Resources},
        spec_edit::SpecEdit,
        time::Nanos,
    },
};

/// The content of a pod's checkpoint file. Existing files have this type's serde form: only add fields with defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SandboxCheckpoint {
    /// Docker's id of the pause container; also the name of the checkpoint file, without `.json`.
    pub id: SandboxId,
    /// The full name of the pause container in Docker, without the leading slash.
    pub name: String,
    /// The RunPodSandbox request: answers need it if Docker loses the pause container before the network is released.
    pub document: SandboxDocument,
    /// When Docker created the pause container. Always set, because kubelet refuses a sandbox without a creation time.
    pub created_at: Nanos,
    /// The state of the pod's connection to its CNI network. dockbridge writes no file without this state.
    pub attachment: Option<Attachment>,
}

/// A value that is stored in one file.
pub trait SingleFile:
    Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    const NAME: &'static str;
    const DURABILITY: Durability = Durability::Written;
}

/// The pod CIDRs that kubelet sent last.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodCidrs {
    pub pod_cidrs: Vec<String>,
}

impl SingleFile for PodCidrs {
    const NAME: &str = "pod-cidrs.json";
    const DURABILITY: Durability = Durability::Synced;
}

/// Images that did not exist before dockbridge pulled or loaded them: for each id, the full names that dockbridge
/// pulled or loaded. Existing files have this serde form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledImages(pub BTreeMap<ImageId, BTreeSet<String>>);

impl SingleFile for PulledImages {
    const NAME: &str = "pulled-images.json";
}

/// Changed limits of pods and containers, and edits that NRI plugins want. Existing files have this serde form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangesSinceCreate {
    /// The limits of containers after a change that Docker does not store completely.
    pub containers: BTreeMap<ContainerId, Resources>,
    pub pods: BTreeMap<SandboxId, PodResources>,
    /// The edits that NRI plugins want, also those of CDI devices. The field `adjustments` of older files is ignored.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub edits: BTreeMap<ContainerId, Vec<SpecEdit>>,
}

impl SingleFile for ChangesSinceCreate {
    const NAME: &str = "resized.json";
}

/// Containers that were OOM-killed without the engine noticing, and when each ended. Existing files have this
/// type's serde form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKills(pub BTreeMap<ContainerId, Nanos>);

impl SingleFile for MemoryKills {
    const NAME: &str = "memory-kills.json";
}

/// The contents of the checkpoint files in a state directory, and the files that cannot be used.
#[derive(Debug, Default)]
pub struct Loaded {
    pub sandboxes: Vec<SandboxCheckpoint>,
    pub quarantined: Vec<Quarantined>,
}

/// A file that cannot be used and was moved aside if possible, or the directory of checkpoint files if it cannot be
/// read.
#[derive(Debug)]
pub struct Quarantined {
    /// The path in `quarantine`, or the old path if the file could not be moved; or the path of the directory.
    pub path: PathBuf,
    pub reason: String,
}
