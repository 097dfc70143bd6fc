//! What our OCI runtime changes in a container, because the Engine API has no field for it.
//!
//! It follows from the documents in the labels and from where namespaces are pinned, so it is made anew
//! before each start.

use std::path::PathBuf;

use super::{
    capabilities,
    cgroup_files::{CgroupLimit, IfMissing, cgroup_files},
    mounts::{POD_FILES, is_same_path},
};
use crate::model::{
    container::{ContainerSpec, Mount},
    document::ContainerDocument,
    engine::{ApiVersion, EngineInfo},
    oci_changes::OciChanges,
    oci_edits::{BoundDevice, MountEdit, OciEdits, UserNamespace, VERSION},
    record::ImageRecord,
    resources::Resources,
    sandbox::SandboxSpec,
    security::Profile,
    user_namespace::IdMappings,
};

/// Where the namespaces that dockbridge makes for a pod are pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    pub user: Option<PathBuf>,
    /// The network namespace, where dockbridge makes it.
    pub network: Option<PathBuf>,
}

/// The changes of a pause, of dockbridge's own image or of another. A profile that the request names is kept.
pub fn sandbox(spec: &SandboxSpec, pins: Pins, has_own_image: bool) -> OciEdits {
    let mut edits = OciEdits {
        version: VERSION,
        network_namespace: pins.network,
        own_pause: has_own_image,
        own_seccomp: has_own_image && !matches!(spec.security.seccomp, Some(Profile::Localhost(_))),
        ..OciEdits::default()
    };
    if let Some(mappings) = spec.namespaces.users {
        edits.user_namespace = Some(UserNamespace { path: pins.user, mappings });
        if !has_own_image {
            edits.mounts = POD_FILES.map(|file| mapped(file, mappings)).into();
        }
    }
    edits
}

/// The changes of a workload with these limits; `adjusted` is what NRI plugins want.
pub fn container(
    document: &ContainerDocument,
    limits: &Resources,
    engine: &EngineInfo,
    user_pin: Option<PathBuf>,
    adjusted: &OciChanges,
) -> OciEdits {
    let spec = &document.spec;
    let mut edits = OciEdits { version: VERSION, ..OciEdits::default() };
    let ambient = capabilities::ambient(&spec.security.capabilities).into_iter();
    edits.ambient_capabilities = ambient.map(|name| format!("CAP_{name}")).collect();
    let of_mount = |mount: &Mount| stated(mount, spec.users, engine);
    edits.mounts = spec.mounts.iter().filter_map(of_mount).collect();
    if let Some(mappings) = spec.users {
        edits.user_namespace = Some(UserNamespace { path: user_pin, mappings });
        let is_taken =
            |file: &str| spec.mounts.iter().any(|it| is_same_path(&it.container_path, file));
        let free = POD_FILES.into_iter().filter(|file| !is_taken(file));
        edits.mounts.extend(free.map(|file| mapped(file, mappings)));
        let without_devices = |path: &String| MountEdit {
            options: vec![NO_DEVICES.to_owned()],
            ..mapped(path, mappings)
        };
        edits.mounts.extend(document.volumes.iter().map(without_devices));
        edits.bound_devices = moved_devices(spec);
    }
    limit(&mut edits, limits, engine);
    edits.changes = document.cdi.clone().with(adjusted.clone());
    edits
}

/// Where the engine mounts volumes because the image says so, in a pod with users of its own.
pub(super) fn volumes(spec: &ContainerSpec, image: &ImageRecord) -> Vec<String> {
    let is_free = |path: &&String| {
        spec.users.is_some()
            && !spec.mounts.iter().any(|mount| is_same_path(&mount.container_path, path))
    };
    image.volumes.iter().filter(is_free).cloned().collect()
}

/// What the request says about a mount. An image has its owners mapped with the pod's users: kubelet
/// says nothing about it.
fn stated(mount: &Mount, users: Option<IdMappings>, engine: &EngineInfo) -> Option<MountEdit> {
    let of_pod = users.filter(|_| mount.image.is_some());
    let is_recursive = mount.recursive_read_only && mount.image.is_none();
    // Newer engines have a field for it.
    let recursive = is_recursive && engine.api < ApiVersion::RECURSIVE_READ_ONLY;
    let mut options = mount.options.clone();
    options.extend(recursive.then(|| "rro".to_owned()));
    options.extend(of_pod.map(|_| NO_DEVICES.to_owned()));
    let edit = MountEdit {
        destination: mount.container_path.clone(),
        options,
        id_mappings: mount.id_mappings.or(of_pod),
        is_implicit: mount.id_mappings.is_none() && of_pod.is_some(),
    };
    (edit.id_mappings.is_some() || !edit.options.is_empty()).then_some(edit)
}

/// A file that everybody may read: without the mapping it belongs to nobody.
fn mapped(file: &str, mappings: IdMappings) -> MountEdit {
    MountEdit {
        destination: file.to_owned(),
        options: Vec::new(),
        id_mappings: Some(mappings),
        is_implicit: true,
    }
}

/// In a user namespace runc binds the host's device at the path of the container's, which is another
/// device where the two paths differ.
fn moved_devices(spec: &ContainerSpec) -> Vec<BoundDevice> {
    let moved = spec.devices.iter().filter(|device| {
        !device.container_path.is_empty()
            && !is_same_path(&device.container_path, &device.host_path)
    });
    moved
        .map(|device| BoundDevice {
            host_path: device.host_path.clone(),
            container_path: device.container_path.clone(),
        })
        .collect()
}

/// Limits without which the container must not run. The others are set after the start: the kernel
/// may not have them, and kubelet sends them for every container.
fn limit(edits: &mut OciEdits, limits: &Resources, engine: &EngineInfo) {
    // A refusal was the plan's.
    let files = cgroup_files(limits, engine).unwrap_or_default();
    for file in files.into_iter().filter(|file| file.if_missing == IfMissing::Fail) {
        match file.limit {
            CgroupLimit::Unified(key) => drop(edits.unified.insert(key, file.value)),
            CgroupLimit::Hugepages(size) => {
                let bytes = limits.hugepage_limits.iter().find(|it| it.page_size == size);
                edits.hugepage_limits.extend(bytes.map(|it| (size, it.limit)));
            }
            CgroupLimit::HugepageReservations(_) => {}
        }
    }
}

/// An image brings nodes of the host's devices along, with owners of the pod's: the root of a privileged
/// container could open them.
const NO_DEVICES: &str = "nodev";
