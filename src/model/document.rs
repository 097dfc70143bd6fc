//! The JSON documents in dockbridge's labels on Docker objects. Pods and containers are read back from them.

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

/// Version written into new documents. Readers accept this and every lower one.
pub const VERSION: u32 = 1;

/// The label [`crate::model::label::SANDBOX_DOCUMENT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxDocument {
    pub version: u32,
    pub spec: SandboxSpec,
    pub network: NetworkMode,
    /// Value of the OCI annotation with which all containers of the pod share one containerd shim. None if
    /// the engine cannot pass annotations.
    pub shim_group: Option<String>,
    /// Rebuilt from labels and an inspect, because there is no readable document. The engine does not
    /// report DNS, ports or ID mappings: if these fields are empty, their values are unknown, not unset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
}

/// The label [`crate::model::label::CONTAINER_DOCUMENT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerDocument {
    pub version: u32,
    pub spec: ContainerSpec,
    pub sandbox: SandboxId,
    pub image_id: ImageId,
    /// `repo@digest` of that image as requested, or its id: `ContainerStatus.image_ref`.
    pub image_ref: String,
    /// User and groups of its main process. None if the image was not inspected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<ProcessUser>,
    /// The image of each image mount, in the order of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_volumes: Vec<MountedImage>,
    /// Whether the container was created with our OCI runtime, so that NRI plugins may change it before it starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_adjustable: bool,
    /// Paths at which the engine mounts a volume because the image declares one. Only set in a pod with a
    /// user namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// The dump from which it starts for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,
    /// Changes for CDI devices, which our OCI runtime makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SpecEdit>,
    /// The parts that `spec` lacks because the engine stores them. Set in every label. None after they were
    /// read back from an inspect, and in labels of dockbridge 0.1, whose `spec` is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
}

/// The parts of a [`ContainerSpec`] that its label lacks. For command, arguments and environment, the label
/// has only their lengths. It has the mounts without their paths. Labels are in every event and list of the
/// engine, and environment values are often secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    pub command: usize,
    pub args: usize,
    pub envs: usize,
}

impl ContainerDocument {
    /// The document of a container of which nothing else is known.
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

    /// The form that is stored in the label.
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
