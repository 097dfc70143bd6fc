//! The JSON documents in container labels, from which dockbridge reads pods and containers.

use serde::{Deserialize, Serialize};

use super::{
    accounts::ProcessUser,
    container::ContainerSpec,
    id::{ImageId, SandboxId},
    network::NetworkMode,
    restore::Restore,
    sandbox::SandboxSpec,
    spec_edit::SpecEdit,
    volume::MountedImage,
};

/// The version that is written into new documents. dockbridge reads this version and every lower version.
pub const VERSION: u32 = 1;

/// The content of the label [`crate::model::label::SANDBOX_DOCUMENT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxDocument {
    pub version: u32,
    pub spec: SandboxSpec,
    pub network: NetworkMode,
    /// The value of the OCI annotation that makes the pod's containers share one containerd shim. None if the
    /// engine cannot pass annotations, or if another program created the pod without this annotation.
    pub shim_group: Option<String>,
    /// Whether this document was rebuilt from the pause container's name, other labels and settings. In a rebuilt
    /// document, empty DNS settings, ports and id mappings are unknown, not unset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
}

/// The content of the label [`crate::model::label::CONTAINER_DOCUMENT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerDocument {
    pub version: u32,
    pub spec: ContainerSpec,
    pub sandbox: SandboxId,
    pub image_id: ImageId,
    /// CRI's `ContainerStatus.image_ref`: `repo@digest`, if possible with the requested repository, or the image's id.
    pub image_ref: String,
    /// The user and groups of the container's main process. None if dockbridge did not read the image's accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<ProcessUser>,
    /// The image of each image mount, in the order of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_volumes: Vec<MountedImage>,
    /// Whether the container has dockbridge-runtime for NRI plugins, which may then change more than its limits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_adjustable: bool,
    /// With a user namespace, the paths of the image's volumes, except those of requested mounts. Otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,
    /// The edits for CDI devices that dockbridge's OCI runtime applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SpecEdit>,
    /// How many arguments and variables `spec` lacks, because only the engine stores them. None if `spec` lacks none,
    /// or if the document is not from a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
}

/// How many arguments and variables of a [`ContainerSpec`] its label lacks. The label lacks these and the paths of
/// mounts, because Docker's events repeat labels, and variables are often secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    pub command: usize,
    pub args: usize,
    pub envs: usize,
}

impl ContainerDocument {
    /// A document in which only these properties of the container are known.
    pub fn new(spec: ContainerSpec, sandbox: SandboxId, image_id: ImageId) -> Self {
        Self {
            version: VERSION,
            spec,
            sandbox,
            image_ref: image_id.to_string(),
            image_id,
            user: None,
            image_volumes: Vec::new(),
            is_adjustable: false,
            volumes: Vec::new(),
            restore: None,
            edits: Vec::new(),
            unread: None,
        }
    }

    /// The form of the document that the label stores.
    #[must_use]
    pub fn without_engine_part(&self) -> Self {
        let mut stored = self.clone();
        let spec = &mut stored.spec;
        stored.unread = Some(Unread {
            command: std::mem::take(&mut spec.command).len(),
            args: std::mem::take(&mut spec.args).len(),
            envs: std::mem::take(&mut spec.envs).len(),
        });
        for mount in &mut spec.mounts {
            mount.container_path.clear();
            mount.host_path.clear();
        }
        stored
    }
}
