//! The mounts of a container.
//!
//! Missing host directories are created, as Kubernetes users expect: by the engine from API 1.42 on,
//! otherwise by the caller ([`Mounts::directories`]). Mounts have no field for SELinux relabelling, which
//! is done separately.

use std::path::{Path, PathBuf};

use super::{error::PlanError, image_mounts::ImageMounts, input::ContainerInput, read_only};
use crate::{
    model::{
        container::{Mount, Propagation},
        engine::{ApiVersion, EngineInfo},
        path::parts,
    },
    wire::docker::{self, MountBindOptionsPropagationEnum},
};

pub(super) struct Mounts {
    /// The caller's mounts in their order, then the pod's files.
    pub(super) mounts: Vec<docker::Mount>,
    /// Missing host paths to create as directories (0755) before the create.
    pub(super) directories: Vec<PathBuf>,
}

/// The caller's mounts, and those of the pod's files at whose path the caller mounts nothing.
pub(super) fn mounts(stated: &[Mount], input: &ContainerInput<'_>) -> Result<Mounts, PlanError> {
    let (files, engine) = (input.files, input.engine);
    let mut images = ImageMounts::new(input.image_volumes);
    let mut mounts = Vec::new();
    for mount in stated {
        mounts.push(match &mount.image {
            Some(image) => images.next(mount, image)?,
            None => bind(mount, engine)?,
        });
    }
    let sources = [&files.resolv_conf, &files.hosts, &files.hostname];
    for (target, source) in POD_FILES.into_iter().zip(sources) {
        if let Some(source) = source
            && !stated.iter().any(|mount| is_same_path(&mount.container_path, target))
        {
            mounts.push(pod_file(source, target, engine));
        }
    }
    let makes_directories = engine.api >= ApiVersion::MAKES_MOUNT_SOURCES;
    let made_by_caller = stated.iter().filter(|mount| !makes_directories && mount.image.is_none());
    let directories = made_by_caller.map(|mount| PathBuf::from(&mount.host_path)).collect();
    Ok(Mounts { mounts, directories })
}

pub(super) fn bind(mount: &Mount, engine: &EngineInfo) -> Result<docker::Mount, PlanError> {
    if mount.host_path.is_empty() {
        return Err(PlanError::invalid(format!(
            "mount at {:?} names neither a host path nor an image",
            mount.container_path
        )));
    }
    let options = docker::MountBindOptions {
        propagation: propagation(mount, engine),
        create_mountpoint: (engine.api >= ApiVersion::MAKES_MOUNT_SOURCES).then_some(true),
        ..read_only::bind_options(mount, engine.api)
    };
    Ok(docker::Mount {
        typ: Some(docker::MountType::BIND),
        source: Some(mount.host_path.clone()),
        target: Some(mount.container_path.clone()),
        read_only: Some(mount.readonly),
        bind_options: Some(options),
        ..docker::Mount::default()
    })
}

/// Always set, because the engine's default depends on the source.
fn propagation(mount: &Mount, engine: &EngineInfo) -> Option<MountBindOptionsPropagationEnum> {
    match mount.propagation {
        Propagation::Private => private(&mount.host_path, engine),
        Propagation::HostToContainer => Some(MountBindOptionsPropagationEnum::RSLAVE),
        Propagation::Bidirectional => Some(MountBindOptionsPropagationEnum::RSHARED),
    }
}

/// If the source contains the engine's data root or is inside it, the engine refuses private propagation.
/// Without a value it uses `rslave`.
fn private(source: &str, engine: &EngineInfo) -> Option<MountBindOptionsPropagationEnum> {
    (!overlaps_data_root(source, engine)).then_some(MountBindOptionsPropagationEnum::RPRIVATE)
}

/// The engine compares the texts and not the path components, so this does the same.
fn overlaps_data_root(source: &str, engine: &EngineInfo) -> bool {
    let root = engine.root_dir.to_string_lossy();
    source.starts_with(root.as_ref()) || root.starts_with(source)
}

/// Writable, as the engine's own files are. A missing source must fail the create, because a directory
/// instead of the file would be worse.
pub(super) fn pod_file(source: &Path, target: &str, engine: &EngineInfo) -> docker::Mount {
    let source = source.display().to_string();
    let propagation = private(&source, engine);
    docker::Mount {
        typ: Some(docker::MountType::BIND),
        source: Some(source),
        target: Some(target.to_owned()),
        read_only: Some(false),
        bind_options: Some(docker::MountBindOptions {
            propagation,
            ..docker::MountBindOptions::default()
        }),
        ..docker::Mount::default()
    }
}

/// Whether two paths in a container are equal after cleaning.
pub(super) fn is_same_path(one: &str, other: &str) -> bool {
    parts(one) == parts(other)
}

/// Files that each container of a pod has, from the engine or from dockbridge.
pub(super) const POD_FILES: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/hostname"];
