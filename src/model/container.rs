//! The request of a container: CRI's `ContainerConfig`, validated and without protocol types.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    resources::Resources, sandbox::PidMode, security::ContainerSecurity, user_namespace::IdMappings,
};

/// CRI's `ContainerMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerMetadata {
    pub name: String,
    pub attempt: u32,
}

/// The request of CreateContainer, stored in a label without the parts that the engine stores
/// ([`super::document::Unread`]). Labels have the serde form of this type: only add fields with defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSpec {
    pub metadata: ContainerMetadata,
    /// The image as the caller names it, without `docker://`: an id, a reference or the path of a checkpoint archive.
    pub image: String,
    /// The image as in the pod's specification, but without credentials; empty if the caller did not pass it.
    pub user_image: String,
    /// Replaces the image's entrypoint when not empty.
    pub command: Vec<String>,
    /// Replaces the image's arguments when not empty.
    pub args: Vec<String>,
    pub working_dir: String,
    pub envs: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    /// The fully qualified names of CDI devices.
    pub cdi_devices: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The directory of the pod's logs, which contains `log_path`. None if the container has no log, or if another
    /// program has created the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_directory: Option<PathBuf>,
    /// The absolute path of the CRI log: the log directory joined with the container's log path.
    pub log_path: Option<PathBuf>,
    pub stdin: bool,
    /// Whether to close standard input when the first attach ends.
    pub stdin_once: bool,
    pub tty: bool,
    pub resources: Resources,
    /// Whether the request had a message with Linux resources, even an empty one.
    pub resources_stated: bool,
    pub pid: PidMode,
    /// With [`PidMode::Target`], the id of the container whose process namespace this container joins.
    pub pid_target: String,
    /// The id mappings of the pod's user namespace. None means the host's user namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<IdMappings>,
    pub security: ContainerSecurity,
    /// The stop signal as Docker writes it (`SIGTERM`, `RTMIN+3`). None means the image's stop signal.
    pub stop_signal: Option<String>,
    /// The checkpoint archive from which RestorePod creates the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<PathBuf>,
}

/// The path of the CRI log as text. Empty if the container has no log.
pub fn log_path(spec: &ContainerSpec) -> String {
    spec.log_path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}

/// Splits `NAME=value` into name and value.
pub fn variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

/// A mount that the request adds to the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    pub container_path: String,
    /// The path on the host; empty for an image volume.
    pub host_path: String,
    pub readonly: bool,
    pub selinux_relabel: bool,
    pub propagation: Propagation,
    pub recursive_read_only: bool,
    pub image: Option<String>,
    pub image_sub_path: String,
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
    /// Later mounts on the host do not appear in the container, nor the other way round.
    #[default]
    Private,
    /// Later mounts on the host appear in the container.
    HostToContainer,
    /// Later mounts on the host appear in the container, and the other way round.
    Bidirectional,
}

/// A device of the host that the request adds to the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    pub container_path: String,
    /// The path on the host: a device, a link to a device, or a directory of devices.
    pub host_path: String,
    /// The permissions, letters of `rwm`; empty means all three.
    pub permissions: String,
}
