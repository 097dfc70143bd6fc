//! The edits that dockbridge's OCI runtime makes in a container's `config.json`, because the Engine API has
//! no fields for them. dockbridge writes the edits to a file before it starts the container.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{spec_edit::SpecEdit, user_namespace::IdMappings};

/// The edits of one container; none by default. `edits` has the simple edits. Edits that need work on the host, or
/// depend on the engine's `config.json`, have their own fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciEdits {
    /// The id of the container's engine. Only the dockbridge of this engine removes the edits of a container
    /// that is gone, because another engine may run on the same host.
    pub engine: String,
    /// The program and arguments of the OCI runtime that dockbridge's OCI runtime calls. If empty, that is the runtime
    /// in the argument `--dockbridge-runtime` of dockbridge's OCI runtime, or runc without this argument.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<String>,
    /// The id mappings of the container's user namespace, with which its root file system is mounted.
    pub users: Option<IdMappings>,
    /// Mounts in the engine's `config.json` whose files need mapped owners.
    pub mapped_mounts: Vec<MappedMount>,
    /// In a pod with a user namespace, the devices that have another path in the container than on the host:
    /// container path and host path. dockbridge's OCI runtime bind-mounts them, because devices cannot be created
    /// in a user namespace.
    pub moved_devices: Vec<(String, String)>,
    /// Whether this is a pause container of dockbridge's built-in image, whose program reads no files. For such
    /// a container, dockbridge's OCI runtime leaves out mounts that runc does not need.
    pub own_pause: bool,
    /// The directory with the unpacked checkpoint archive, from which the first start restores the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<PathBuf>,
    pub edits: Vec<SpecEdit>,
}

/// A mount whose files have mapped owners in the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedMount {
    /// The path in the container. If several mounts have this path, the last of them is mapped.
    pub destination: String,
    pub mappings: IdMappings,
    /// Whether the mapping was not requested but follows from the pod's user namespace. If the ids of a
    /// mount without a requested mapping cannot be mapped, its files belong to the user `nobody` in the container.
    /// If the ids of a requested mapping cannot be mapped, the container does not start.
    pub is_implicit: bool,
    /// Whether the mount gets `nodev`, as image mounts, and volumes that the image declares, do in a pod with a user
    /// namespace. Device files of an image would have mapped owners, so a privileged container could open the host's
    /// devices.
    pub without_devices: bool,
}

impl OciEdits {
    /// Whether these edits change nothing in the container.
    pub fn is_empty(&self) -> bool {
        let (engine, runtime) = (self.engine.clone(), self.runtime.clone());
        *self == Self { engine, runtime, ..Self::default() }
    }
}

/// The format version of a file of edits without the fields `runtime` and `restore`. dockbridge's OCI runtime
/// refuses versions that it does not know.
pub const VERSION: u32 = 2;
/// The version of a file with the field `runtime` and without `restore`. With version 2, an older dockbridge-runtime
/// would accept the file and ignore `runtime`.
pub const VERSION_WITH_RUNTIME: u32 = 3;
/// The version of a file with the field `restore`, which an older dockbridge-runtime would otherwise ignore.
pub const VERSION_WITH_RESTORE: u32 = 4;
/// The OCI annotation of a container that must not start without its edits (since Engine API 1.43).
pub const REQUIRED_ANNOTATION: &str = "io.dockbridge.edits";
/// The name with which `dockbridge setup` registers dockbridge's OCI runtime with the engine.
pub const RUNTIME: &str = "dockbridge";
