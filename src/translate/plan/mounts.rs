//! The mounts of a container.
//!
//! Missing host directories are created, as Kubernetes users expect: by the engine from API 1.42 on,
//! otherwise by the caller ([`Mounts::directories`]). Mounts have no field for SELinux relabelling, which
//! is done separately.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{input::ContainerInput, read_only};
use crate::{
    error::{Failure, Kind},
    model::{
        container::{Mount, Propagation},
        engine::{ApiVersion, EngineInfo},
        id::ImageId,
        path::parts,
        reference::printable,
        volume::{ImageVolume, VolumeSource},
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
pub(super) fn mounts(stated: &[Mount], input: &ContainerInput<'_>) -> Result<Mounts, Failure> {
    let (files, engine) = (input.files, input.engine);
    let mut images = ImageMounts { ready: input.image_volumes.iter(), used: HashMap::new() };
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

pub(super) fn bind(mount: &Mount, engine: &EngineInfo) -> Result<docker::Mount, Failure> {
    if mount.host_path.is_empty() {
        return Err(Failure::invalid(format!(
            "mount at {:?} names neither a host path nor an image",
            mount.container_path
        )));
    }
    let options = docker::MountBindOptions {
        propagation: propagation(mount, engine),
        create_mountpoint: (engine.api >= ApiVersion::MAKES_MOUNT_SOURCES).then_some(true),
        ..read_only::bind_options(mount, engine.api)
    };
    Ok(bound(mount.host_path.clone(), &mount.container_path, mount.readonly, options))
}

fn bound(
    source: String,
    target: &str,
    readonly: bool,
    options: docker::MountBindOptions,
) -> docker::Mount {
    docker::Mount {
        typ: Some(docker::MountType::BIND),
        source: Some(source),
        target: Some(target.to_owned()),
        read_only: Some(readonly),
        bind_options: Some(options),
        ..docker::Mount::default()
    }
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
    let options = docker::MountBindOptions { propagation, ..docker::MountBindOptions::default() };
    bound(source, target, false, options)
}

/// Whether two paths in a container are equal after cleaning.
pub(super) fn is_same_path(one: &str, other: &str) -> bool {
    parts(one) == parts(other)
}

/// Returns the image mounts in the order of the specification.
///
/// The engine (28.0) names such a mount after its source, and refuses two with the same name in a container. Any
/// prefix of an id also names the image, so each further mount of it uses a prefix that is one digit shorter. The
/// first mount uses the whole id, because only then the engine counts the image as used.
struct ImageMounts<'a> {
    ready: std::slice::Iter<'a, ImageVolume>,
    /// How often each image is already mounted.
    used: HashMap<&'a ImageId, usize>,
}

impl ImageMounts<'_> {
    /// The next mount. `image` is its name in the request, for errors.
    fn next(&mut self, mount: &Mount, image: &str) -> Result<docker::Mount, Failure> {
        let (image, target) = (printable(image), &mount.container_path);
        // kubelet reads the prefix.
        let failed = |kind, reason: &str| {
            Failure::new(kind, reason).within(format_args!(
                "ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}"
            ))
        };
        let refused = |reason| failed(Kind::InvalidArgument, reason);
        if mount.propagation != Propagation::Private {
            return Err(refused("propagation must be private: nothing is mounted below an image"));
        }
        let unready = || failed(Kind::Internal, "the image was not prepared");
        let volume = self.ready.next().ok_or_else(unready)?;
        Ok(match &volume.source {
            VolumeSource::Directory { path } => {
                let source = path.to_str().ok_or_else(|| refused("the path is not UTF-8"))?;
                directory(source, mount)
            }
            VolumeSource::Engine { sub_path } => {
                let before = self.used.entry(&volume.image).or_default();
                let name = unique_prefix(&volume.image, *before)
                    .ok_or_else(|| refused("the image is mounted too often in one container"))?;
                *before += 1;
                by_engine(name, sub_path, mount)
            }
        })
    }
}

/// The prefix of the image's id for a mount with `before` earlier mounts of the same image.
fn unique_prefix(image: &ImageId, before: usize) -> Option<String> {
    let whole = image.as_str();
    let left = image.hex().len().checked_sub(before).filter(|left| *left >= MIN_DIGITS)?;
    let prefix = whole.len() - image.hex().len();
    whole.get(..prefix + left).map(str::to_owned)
}

fn by_engine(name: String, sub_path: &str, mount: &Mount) -> docker::Mount {
    let subpath = Some(sub_path.to_owned()).filter(|path| !path.is_empty());
    docker::Mount {
        typ: Some(docker::MountType::IMAGE),
        source: Some(name),
        target: Some(mount.container_path.clone()),
        read_only: Some(true),
        image_options: subpath.map(|path| docker::MountImageOptions { subpath: Some(path) }),
        ..docker::Mount::default()
    }
}

/// The directory itself is read-only. It must exist, because a directory created by the engine would be an
/// empty image.
fn directory(source: &str, mount: &Mount) -> docker::Mount {
    let propagation = Some(MountBindOptionsPropagationEnum::RPRIVATE);
    let options = docker::MountBindOptions { propagation, ..docker::MountBindOptions::default() };
    bound(source.to_owned(), &mount.container_path, true, options)
}

/// Files that each container of a pod has, from the engine or from dockbridge.
pub(super) const POD_FILES: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/hostname"];

/// How many digits of an id certainly identify one image.
const MIN_DIGITS: usize = 32;
