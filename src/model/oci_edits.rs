//! What our OCI runtime changes in a container's `config.json`, because the Engine API has no field
//! for it. dockbridge writes it as a file before it starts the container.

use serde::{Deserialize, Serialize};

use super::{spec_edit::SpecEdit, user_namespace::IdMappings};

/// The changes for one container; the default changes nothing. Beside the edits it has what needs work on
/// the host, or depends on what the engine wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciEdits {
    /// Id of the engine that the container is of: only its server removes the file in a sweep. Another
    /// server may have another engine on this machine.
    pub engine: String,
    /// The ids of the container's user namespace. The root file system is mounted with them.
    pub users: Option<IdMappings>,
    /// Mounts of the engine that are mounted with mapped ids.
    pub mapped_mounts: Vec<MappedMount>,
    /// Devices, or directories of them, whose path in the container is not the one on the host: container
    /// path and host path. They are mounted: a device cannot be made in a user namespace.
    pub moved_devices: Vec<(String, String)>,
    /// The container is a pause of our own image, which reads no file: mounts that runc itself does not
    /// need are left out.
    pub own_pause: bool,
    /// In the order in which they are applied.
    pub edits: Vec<SpecEdit>,
}

/// A mount whose files are shown with other owners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedMount {
    /// Path in the container. Of several mounts there, the last is mapped.
    pub destination: String,
    pub mappings: IdMappings,
    /// The mapping is not the request's, but follows from the pod's users: for a file or volume that the
    /// engine mounts by itself, and for an image. Then the mount may be missing, and where its ids cannot be
    /// mapped its files belong to nobody inside. Otherwise both are errors.
    pub is_implicit: bool,
    /// It is an image or a volume of one. An image brings nodes of the host's devices along, with owners
    /// of the pod's: the root of a privileged container could open them.
    pub without_devices: bool,
}

impl OciEdits {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self { engine: self.engine.clone(), ..Self::default() }
    }
}

/// Format version of the file. A runtime refuses any other.
pub const VERSION: u32 = 2;
/// OCI annotation of a container that must not start without its edits. The Engine API passes
/// annotations on from 1.43 on.
pub const REQUIRED: &str = "io.dockbridge.edits";
/// The name of our runtime among the engine's, as `dockbridge setup` writes it.
pub const RUNTIME: &str = "dockbridge";
