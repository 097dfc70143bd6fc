//! What our OCI runtime changes in a container, because the Engine API has no field for it.
//!
//! It follows from the documents in the labels and from where namespaces are pinned, so it is made anew
//! before each start.

use std::path::Path;

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
        spec_edit::{SpecEdit, stated},
        user_namespace::IdMappings,
    },
    translate::limits::cgroup_files,
};

/// The changes of a pause, of dockbridge's own image or of another. A profile that the request names is kept.
/// With the paths where the namespaces that dockbridge makes for the pod are pinned.
pub fn sandbox(
    spec: &SandboxSpec,
    network_pin: &Path,
    user_pin: Option<&Path>,
    has_own_image: bool,
) -> OciEdits {
    let mut made = OciEdits { own_pause: has_own_image, ..OciEdits::default() };
    made.edits.push(namespace("network", Some(network_pin)));
    if let Some(mappings) = spec.namespaces.users {
        made.users = Some(mappings);
        made.edits.push(namespace("user", user_pin));
        if !has_own_image {
            made.mapped_mounts = POD_FILES.map(|file| mapped(file, mappings)).into();
        }
    }
    // Our pause installs its own filter, which allows less.
    if has_own_image && !matches!(spec.security.seccomp, Some(Profile::Localhost(_))) {
        made.edits.push(SpecEdit::remove(&["linux", "seccomp"]));
    }
    made
}

/// The changes of a workload with these limits; `adjusted` is what NRI plugins want.
pub fn container(
    document: &ContainerDocument,
    limits: &Resources,
    engine: &EngineInfo,
    user_pin: Option<&Path>,
    adjusted: &[SpecEdit],
) -> OciEdits {
    let spec = &document.spec;
    let mut made = OciEdits::default();
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
    // A capability is kept in the ambient set only if it is permitted and inheritable as well.
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

/// A namespace to join, or a new one.
fn namespace(kind: &str, pin: Option<&Path>) -> SpecEdit {
    let path = pin.map(Path::to_string_lossy);
    SpecEdit::set(&["linux", "namespaces", kind], stated(json!({"path": path})))
}

/// Where the engine mounts volumes because the image says so, in a pod with users of its own.
pub(super) fn volumes(spec: &ContainerSpec, image: &ImageRecord) -> Vec<String> {
    let is_free = |path: &&String| {
        spec.users.is_some()
            && !spec.mounts.iter().any(|mount| is_same_path(&mount.container_path, path))
    };
    image.volumes.iter().filter(is_free).cloned().collect()
}

/// Mounts whose owners are mapped: those of the request, and in a pod with users of its own also images,
/// the pod's files and volumes of the image, about which kubelet says nothing.
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

/// A file that everybody may read: without the mapping it belongs to nobody.
fn mapped(file: &str, mappings: IdMappings) -> MappedMount {
    let destination = file.to_owned();
    MappedMount { destination, mappings, is_implicit: true, without_devices: false }
}

/// Options of a mount that the engine cannot set.
fn options(mount: &Mount, engine: &EngineInfo) -> Option<SpecEdit> {
    let is_recursive = mount.recursive_read_only && mount.image.is_none();
    // Newer engines have a field for it.
    let recursive = is_recursive && engine.api < ApiVersion::RECURSIVE_READ_ONLY;
    let mut options = mount.options.clone();
    options.extend(recursive.then(|| "rro".to_owned()));
    let at = ["mounts", mount.container_path.as_str(), "options"];
    (!options.is_empty()).then(|| SpecEdit::add(&at, options))
}

/// In a user namespace runc binds the host's device at the path of the container's, which is another
/// device where the two paths differ.
fn moved_devices(spec: &ContainerSpec) -> Vec<(String, String)> {
    let moved = spec.devices.iter().filter(|device| {
        !device.container_path.is_empty()
            && !is_same_path(&device.container_path, &device.host_path)
    });
    moved.map(|device| (device.container_path.clone(), device.host_path.clone())).collect()
}
