//! What our OCI runtime changes in a container's `config.json`, because the Engine API has no field
//! for it. dockbridge writes it as a file before it starts the container.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{spec_edit::SpecEdit, user_namespace::IdMappings};

/// The changes for one container. The default changes nothing. `edits` has simple changes. The other fields
/// are for changes that need work on the host, or that depend on what the engine wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OciEdits {
    /// Id of the container's engine. Only the server of this engine removes unused files, because another
    /// engine may run on this machine.
    pub engine: String,
    /// Program and arguments of the runtime that ours runs; empty for the one with which ours was registered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<String>,
    /// The ids of the container's user namespace. The root file system is mounted with them.
    pub users: Option<IdMappings>,
    /// Mounts made by the engine that get mapped ids.
    pub mapped_mounts: Vec<MappedMount>,
    /// Devices, or directories of devices, that have another path in the container than on the host:
    /// container path and host path. They are bind-mounted, because devices cannot be created in a user
    /// namespace.
    pub moved_devices: Vec<(String, String)>,
    /// This is a pause container from our own image, which reads no files. Mounts that runc does not need
    /// are left out.
    pub own_pause: bool,
    /// The directory of the dump with which the container begins. It is removed after that, so that later starts are
    /// fresh ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<PathBuf>,
    /// In the order in which they are applied.
    pub edits: Vec<SpecEdit>,
}

/// A mount whose files have mapped owners in the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedMount {
    /// Path in the container. If several mounts have it, the last one is mapped.
    pub destination: String,
    pub mappings: IdMappings,
    /// The mapping was not requested but follows from the pod's user namespace. This is so for files and
    /// volumes that the engine mounts on its own, and for images. The mount may then be missing. If its ids
    /// cannot be mapped, its files belong to nobody in the container. For a requested mapping, both are
    /// errors.
    pub is_implicit: bool,
    /// The mount is an image, or a volume of an image. An image may contain device files. With mapped ids
    /// they would belong to the pod, so the root of a privileged container could open the host's devices.
    pub without_devices: bool,
}

impl OciEdits {
    /// Whether it changes nothing in the container.
    pub fn is_empty(&self) -> bool {
        let (engine, runtime) = (self.engine.clone(), self.runtime.clone());
        *self == Self { engine, runtime, ..Self::default() }
    }
}

/// Format version of the file. The runtime refuses any other version.
pub const VERSION: u32 = 2;
/// The version of a file that names a runtime. A program that knows only version 2 would run runc.
pub const VERSION_WITH_RUNTIME: u32 = 3;
/// The version of a file with a dump. A program that does not know it would start the container without it.
pub const VERSION_WITH_RESTORE: u32 = 4;
/// OCI annotation of a container that must not start without its edits. The Engine API supports annotations
/// from 1.43 on.
pub const REQUIRED: &str = "io.dockbridge.edits";
/// The name of our runtime among the engine's, as `dockbridge setup` writes it.
pub const RUNTIME: &str = "dockbridge";
