//! `ContainerConfig` of CRI, validated and without protocol types.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    resources::Resources, sandbox::PidMode, security::ContainerSecurity, user_namespace::IdMappings,
};

/// `ContainerMetadata` of CRI. The name is never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerMetadata {
    pub name: String,
    pub attempt: u32,
}

/// The request of CreateContainer. It is stored in a label of the container, without the parts that the
/// engine stores itself ([`super::document::Unread`]). Its serde form is a durable format: add fields with
/// defaults only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSpec {
    pub metadata: ContainerMetadata,
    /// The image as the caller names it (an id or a reference), prefixes stripped.
    pub image: String,
    /// The image as the user wrote it, or empty if the caller did not say.
    pub user_image: String,
    /// Replaces the image's entrypoint when not empty.
    pub command: Vec<String>,
    /// Replaces the image's arguments when not empty.
    pub args: Vec<String>,
    /// Working directory; empty means the image's.
    pub working_dir: String,
    /// In the caller's order, as mounts and devices are.
    pub envs: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    /// CDI device names, fully qualified.
    pub cdi_devices: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Directory of the pod's logs, which contains `log_path`. dockbridge may write to it, but the pod may
    /// have created anything below it. None if there is no log, or if another program created the
    /// container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_directory: Option<PathBuf>,
    /// Absolute path of the CRI log: log directory joined with the container's log path.
    pub log_path: Option<PathBuf>,
    pub stdin: bool,
    /// Close standard input when the first attach ends.
    pub stdin_once: bool,
    pub tty: bool,
    pub resources: Resources,
    /// Whether the request carried a Linux resources message.
    pub resources_stated: bool,
    pub pid: PidMode,
    /// With [`PidMode::Target`]: the container whose processes it can see.
    pub pid_target: String,
    /// The user namespace in the request, which is the pod's. None means the host's users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<IdMappings>,
    pub security: ContainerSecurity,
    /// Signal that asks the process to stop, as Docker writes it (`SIGTERM`, `RTMIN+3`). None means the
    /// image's.
    pub stop_signal: Option<String>,
    /// The archive from which RestorePod creates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<PathBuf>,
}

/// Name and value of `NAME=value`.
pub fn variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

/// One mount of the request, as the status reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    pub container_path: String,
    /// Path on the host; empty for an image volume.
    pub host_path: String,
    pub readonly: bool,
    pub selinux_relabel: bool,
    /// Whether mounts made later on one side appear on the other.
    pub propagation: Propagation,
    pub recursive_read_only: bool,
    /// The image to mount instead of a host path.
    pub image: Option<String>,
    pub image_sub_path: String,
    /// ID mappings for the owners of its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_mappings: Option<IdMappings>,
    /// Requested mount options that have no field above.
    pub options: Vec<String>,
}

/// The kind of file at the CRI log path of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerLogFormat {
    /// A file in CRI format that dockbridge writes and kubelet rotates.
    #[default]
    Cri,
    /// A symlink to the engine's log file, which the engine rotates.
    Docker,
}

/// `MountPropagation` of CRI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// In neither direction.
    #[default]
    Private,
    /// Mounts of the host appear in the container.
    HostToContainer,
    /// In both directions.
    Bidirectional,
}

/// One device of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    pub container_path: String,
    /// Path on the host: a device, a link to one, or a directory of them.
    pub host_path: String,
    /// Subset of `rwm`; empty means all.
    pub permissions: String,
}
