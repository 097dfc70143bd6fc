//! What our OCI runtime changes in a container's `config.json`, because the Engine API has no field
//! for it. dockbridge writes it as a file before it starts the container.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{oci_changes::OciChanges, user_namespace::IdMappings};

/// The changes for one container; the default changes nothing. Both programs are usually one file,
/// but a running server may meet a newer runtime: add fields with defaults only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciEdits {
    /// Format version, at most [`VERSION`]; a runtime refuses a newer one.
    pub version: u32,
    /// Id of the engine that the container is of: only its server removes the file in a sweep. Another
    /// server may have another engine on this machine.
    pub engine: String,
    /// The user namespace of the container.
    pub user_namespace: Option<UserNamespace>,
    /// Network namespace to join in place of the private one: the path of a pin.
    pub network_namespace: Option<PathBuf>,
    /// Capabilities that programs keep when they are executed by a user other than root, each with
    /// `CAP_`. They are added to the bounding, permitted, effective and inheritable sets.
    pub ambient_capabilities: Vec<String>,
    /// Changes of mounts that the engine states.
    pub mounts: Vec<MountEdit>,
    /// Devices that are mounted instead of made: a device cannot be made in a user namespace.
    pub bound_devices: Vec<BoundDevice>,
    /// Files of cgroup v2, `linux.resources.unified`.
    pub unified: BTreeMap<String, String>,
    /// Huge page limits, `linux.resources.hugepageLimits`: page size as the kernel names it → bytes.
    pub hugepage_limits: BTreeMap<String, u64>,
    /// The container is a pause of our own image, which reads no file: mounts that runc itself does not
    /// need are left out.
    pub own_pause: bool,
    /// The program installs a seccomp filter of its own, which allows less than the engine's profile;
    /// the engine's is left out.
    pub own_seccomp: bool,
    /// What CDI devices and NRI plugins ask for.
    #[serde(skip_serializing_if = "OciChanges::is_empty")]
    pub changes: OciChanges,
}

/// The user namespace of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserNamespace {
    /// The pin of the namespace to join; none makes one.
    pub path: Option<PathBuf>,
    /// Its ids. The root file system is mounted with them.
    pub mappings: IdMappings,
}

/// A change of the mount at `destination`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountEdit {
    /// Path in the container, as in the request. Of several mounts there, the last is changed.
    pub destination: String,
    /// Added mount options, e.g. `noexec`.
    pub options: Vec<String>,
    /// Owners of its files are shown with these ids. An error where the file system cannot.
    pub id_mappings: Option<IdMappings>,
    /// The mapping is not the request's, but follows from the pod's users: for a file or volume that the
    /// engine mounts by itself, and for an image. Then the mount may be missing, and where its ids cannot be
    /// mapped its files belong to nobody inside.
    pub is_implicit: bool,
}

/// A device of the host, bound to a path in the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundDevice {
    /// Path on the host.
    pub host_path: String,
    /// Path in the container.
    pub container_path: String,
}

impl OciEdits {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self { version: self.version, engine: self.engine.clone(), ..Self::default() }
    }
}

/// Format version of new edits.
pub const VERSION: u32 = 1;
/// OCI annotation of a container that must not start without its edits. The Engine API passes
/// annotations on from 1.43 on.
pub const REQUIRED: &str = "io.dockbridge.edits";
/// The name of our runtime among the engine's, as `dockbridge setup` writes it.
pub const RUNTIME: &str = "dockbridge";
