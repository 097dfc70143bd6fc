//! The changes that dockbridge-runtime makes to a container.
//!
//! The edits follow from the documents in the labels, the limits, the engine, the paths of namespaces and the
//! changes of plugins. If a container can use dockbridge-runtime, dockbridge computes its edits before each start.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{
    capabilities,
    mounts::{POD_FILES, is_same_path},
};
use crate::{
    model::{
        container::{ContainerSpec, Mount},
        document::ContainerDocument,
        engine::{ApiVersion, EngineInfo},
        oci_edits::{MappedMount, OciEdits},
        record::ImageRecord,
        resources::Resources,
        sandbox::SandboxSpec,
        security::Profile,
        spec_edit::{SpecEdit, without_empty},
        user_namespace::IdMappings,
    },
    translate::limits::cgroup_files,
};

/// The edits for a pause container. `has_own_image` says whether its image is dockbridge's. Keeps a requested
/// localhost seccomp profile. `network_pin` (unused with the host's network) and `user_pin` are the paths of the
/// pod's pinned namespaces.
pub fn sandbox(
    spec: &SandboxSpec,
    network_pin: &Path,
    user_pin: Option<&Path>,
    has_own_image: bool,
) -> OciEdits {
    let mut made = OciEdits { own_pause: has_own_image, ..OciEdits::default() };
    if !spec.namespaces.host_network {
        made.edits.push(namespace("network", Some(network_pin)));
    }
    if let Some(mappings) = spec.namespaces.users {
        made.users = Some(mappings);
        made.edits.push(namespace("user", user_pin));
        if !has_own_image {
            made.mapped_mounts = POD_FILES.map(|file| mapped(file, mappings)).into();
        }
    }
    // The pause program of dockbridge installs its own seccomp filter, which allows fewer system calls than Docker's.
    if has_own_image && !matches!(spec.security.seccomp, Some(Profile::Localhost(_))) {
        made.edits.push(SpecEdit::remove(&["linux", "seccomp"]));
    }
    made
}

/// The edits for a container with these limits. `adjusted` has the changes of NRI plugins.
pub fn container(
    document: &ContainerDocument,
    limits: &Resources,
    engine: &EngineInfo,
    user_pin: Option<&Path>,
    adjusted: &[SpecEdit],
) -> OciEdits {
    let spec = &document.spec;
    // The caller replaces the empty path with the directory of the unpacked checkpoint archive.
    let restore = document.restore.as_ref().map(|_| PathBuf::new());
    let mut made = OciEdits { restore, ..OciEdits::default() };
    if let Some(mappings) = spec.users {
        made.users = Some(mappings);
        made.edits.push(namespace("user", user_pin));
        made.moved_devices = moved_devices(spec);
    }
    made.mapped_mounts = mapped_mounts(document);
    for mount in &spec.mounts {
        made.edits.extend(options(mount, engine));
    }
    let ambient = capabilities::ambient(&spec.security.capabilities).into_iter();
    let ambient: Vec<String> = ambient.map(|name| format!("CAP_{name}")).collect();
    // The kernel requires that an ambient capability is also permitted and inheritable.
    for set in ["bounding", "effective", "inheritable", "permitted", "ambient"] {
        if !ambient.is_empty() {
            let at = ["process", "capabilities", set];
            made.edits.push(SpecEdit::add(&at, ambient.iter().cloned()));
        }
    }
    made.edits.extend(cgroup_files::edits(limits, engine));
    made.edits.extend_from_slice(&document.edits);
    made.edits.extend_from_slice(adjusted);
    made
}

/// The edit that makes the container join the namespace at `pin`, or without `pin` use a new namespace.
fn namespace(kind: &str, pin: Option<&Path>) -> SpecEdit {
    let path = pin.map(Path::to_string_lossy);
    SpecEdit::set(&["linux", "namespaces", kind], without_empty(json!({"path": path})))
}

/// In a pod with a user namespace: the paths of volumes that the image declares, except paths of requested
/// mounts. Otherwise empty.
pub(super) fn volumes(spec: &ContainerSpec, image: &ImageRecord) -> Vec<String> {
    let is_free = |path: &&String| {
        spec.users.is_some()
            && !spec.mounts.iter().any(|mount| is_same_path(&mount.container_path, path))
    };
    image.volumes.iter().filter(is_free).cloned().collect()
}

/// The mounts that need mapped ids: those with a mapping in the request. In a pod with a user namespace, also other
/// image volumes, files of the pod that the request does not mount, and volumes that the image declares.
fn mapped_mounts(document: &ContainerDocument) -> Vec<MappedMount> {
    let spec = &document.spec;
    let of_request = spec.mounts.iter().filter_map(|mount| {
        let of_pod = spec.users.filter(|_| mount.image.is_some());
        Some(MappedMount {
            destination: mount.container_path.clone(),
            mappings: mount.id_mappings.or(of_pod)?,
            is_implicit: mount.id_mappings.is_none(),
            without_devices: of_pod.is_some(),
        })
    });
    let mut all: Vec<_> = of_request.collect();
    if let Some(users) = spec.users {
        let is_taken =
            |file: &str| spec.mounts.iter().any(|it| is_same_path(&it.container_path, file));
        let free = POD_FILES.into_iter().filter(|file| !is_taken(file));
        all.extend(free.map(|file| mapped(file, users)));
        let volume = |path| MappedMount { without_devices: true, ..mapped(path, users) };
        all.extend(document.volumes.iter().map(|path| volume(path)));
    }
    all
}

/// Maps the ids of a mount, whose files would otherwise belong to `nobody` in the pod's user namespace.
fn mapped(file: &str, mappings: IdMappings) -> MappedMount {
    let destination = file.to_owned();
    MappedMount { destination, mappings, is_implicit: true, without_devices: false }
}

/// The edit that adds mount options that the engine cannot set.
fn options(mount: &Mount, engine: &EngineInfo) -> Option<SpecEdit> {
    let is_recursive = mount.recursive_read_only && mount.image.is_none();
    // Engines with API 1.44 or later have a field for recursive read-only mounts.
    let recursive = is_recursive && engine.api < ApiVersion::RECURSIVE_READ_ONLY;
    let mut options = mount.options.clone();
    options.extend(recursive.then(|| "rro".to_owned()));
    let at = ["mounts", mount.container_path.as_str(), "options"];
    (!options.is_empty()).then(|| SpecEdit::add(&at, options))
}

/// Devices whose path in the container differs from the path on the host. In a user namespace, runc would
/// bind-mount the device that the host has at the container's path, which is the wrong device.
fn moved_devices(spec: &ContainerSpec) -> Vec<(String, String)> {
    let moved = spec.devices.iter().filter(|device| {
        !device.container_path.is_empty()
            && !is_same_path(&device.container_path, &device.host_path)
    });
    moved.map(|device| (device.container_path.clone(), device.host_path.clone())).collect()
}
