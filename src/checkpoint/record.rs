//! What checkpoints store, and what loading a directory of checkpoints returns.

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

/// What is known about a sandbox without asking Docker. Files keep its serde form: only add fields with
/// defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SandboxCheckpoint {
    /// Docker id of the pause container; also the file's name.
    pub id: SandboxId,
    /// Full container name in Docker, without the leading slash.
    pub name: String,
    /// The request; used in answers when Docker has lost the container and its labels.
    pub document: SandboxDocument,
    /// When Docker created the container. Never unset, because kubelet refuses a sandbox without it.
    pub created_at: Nanos,
    /// The state of CNI; none before the intent to call it was recorded.
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

/// The images that were pulled for kubelet: for each id, the full names under which they were pulled. Files
/// keep its serde form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledImages(pub BTreeMap<ImageId, BTreeSet<String>>);

impl SingleFile for PulledImages {
    const NAME: &str = "pulled-images.json";
}

/// What was changed after the create: limits, and what plugins want. Its serde form is a durable format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangesSinceCreate {
    /// For each container, all its current limits.
    pub containers: BTreeMap<ContainerId, Resources>,
    pub pods: BTreeMap<SandboxId, PodResources>,
    /// What NRI plugins want of containers, and CDI devices that they add. Earlier versions had
    /// `adjustments` in another form, which is not read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub edits: BTreeMap<ContainerId, Vec<SpecEdit>>,
}

impl SingleFile for ChangesSinceCreate {
    const NAME: &str = "resized.json";
}

/// Containers that were OOM-killed without the engine noticing, with the time of their end. Its serde form is a durable format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKills(pub BTreeMap<ContainerId, Nanos>);

impl SingleFile for MemoryKills {
    const NAME: &str = "memory-kills.json";
}

/// What a state directory holds: the checkpoints, and the files that cannot be trusted.
#[derive(Debug, Default)]
pub struct Loaded {
    pub sandboxes: Vec<SandboxCheckpoint>,
    pub quarantined: Vec<Quarantined>,
}

/// A file that could not be trusted.
#[derive(Debug)]
pub struct Quarantined {
    /// The path of the file now, or its old path if it could not be moved.
    pub path: PathBuf,
    /// What is wrong with it, for the operator.
    pub reason: String,
}
