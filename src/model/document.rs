//! The JSON documents in our labels on Docker objects, from which a pod or container is read back.
//! Docker is the database; these are its rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    accounts::ProcessUser,
    container::ContainerSpec,
    id::{ImageId, SandboxId},
    network::NetworkMode,
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
    /// Value of the OCI annotation that lets all containers of the pod share one containerd
    /// shim; none where the engine cannot pass annotations.
    #[serde(default)]
    pub shim_group: Option<String>,
    /// Rebuilt from labels and an inspect, because no readable document exists. The engine reports
    /// neither DNS, ports nor ID mappings: where these are empty, they are unknown and not unset.
    #[serde(default, skip_serializing_if = "is_no")]
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
    /// User and groups of its main process; none where the image was not inspected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ProcessUser>,
    /// The image of each image mount, in the order of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_volumes: Vec<MountedImage>,
    /// It was made with our OCI runtime, so that NRI plugins may change it before its start.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_adjustable: bool,
    /// Where the engine mounts a volume because the image says so. Only in a pod with users of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
    /// What CDI devices ask of our OCI runtime.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SpecEdit>,
    /// The same in the form of an earlier version, which is not read: such a container does not start.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub cdi: Value,
    /// What `spec` lacks because the engine stores it itself. In every label; none once it was read
    /// back from an inspect, and in labels of dockbridge 0.1, whose `spec` has everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
}

/// What of a [`ContainerSpec`] is not in its label: command, arguments and environment, of which the
/// label has the lengths, and the paths of mounts, which the label has without. Labels are in every
/// event and list of the engine, and the values of variables are often secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Length of [`ContainerSpec::command`].
    pub command: usize,
    /// Length of [`ContainerSpec::args`].
    pub args: usize,
    /// Length of [`ContainerSpec::envs`].
    pub envs: usize,
}

impl ContainerDocument {
    /// The form for the label.
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

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_no(value: &bool) -> bool {
    !*value
}
