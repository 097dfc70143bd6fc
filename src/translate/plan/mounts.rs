//! Plans the mounts of a container.
//!
//! If the host path of a requested mount is missing, the engine creates a directory there. With engines before API
//! 1.42, dockbridge creates the directory ([`Mounts::directories`]). `container::relabel` relabels files for SELinux.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::{input::ContainerInput, read_only};
use crate::{
    error::{Failure, Kind},
    model::{
        container::{ContainerSpec, Mount, Propagation},
        engine::{ApiVersion, EngineInfo},
        id::ImageId,
        path::parts,
        reference::printable,
        volume::{ImageVolume, VolumeSource},
    },
    wire::docker::{self, MountBindOptionsPropagationEnum},
};

pub(super) struct Mounts {
    /// The requested mounts in their order, then the pod's files.
    pub(super) mounts: Vec<docker::Mount>,
    /// Host paths that dockbridge must create as directories (0755) before the create, if they are missing.
    pub(super) directories: Vec<PathBuf>,
}

/// Plans the requested mounts, and mounts of the files in `input.files`, except at paths of requested mounts.
pub(super) fn mounts(spec: &ContainerSpec, input: &ContainerInput<'_>) -> Result<Mounts, Failure> {
    let (stated, files, engine) = (&spec.mounts, input.files, input.engine);
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
            let is_read_only = spec.security.readonly_rootfs;
            mounts.push(pod_file(source, target, is_read_only, engine));
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

/// The propagation of a mount, which is always set if possible: the engine's default depends on the source.
fn propagation(mount: &Mount, engine: &EngineInfo) -> Option<MountBindOptionsPropagationEnum> {
    match mount.propagation {
        Propagation::Private => private(&mount.host_path, engine),
        Propagation::HostToContainer => Some(MountBindOptionsPropagationEnum::RSLAVE),
        Propagation::Bidirectional => Some(MountBindOptionsPropagationEnum::RSHARED),
    }
}

/// Private propagation, unless the source contains the engine's data root or is inside it: there the engine
/// refuses private propagation, and uses `rslave` if the create request sets no propagation.
fn private(source: &str, engine: &EngineInfo) -> Option<MountBindOptionsPropagationEnum> {
    let root = engine.root_dir.to_string_lossy();
    // Compares the paths as texts, as the engine does.
    let overlap = source.starts_with(root.as_ref()) || root.starts_with(source);
    (!overlap).then_some(MountBindOptionsPropagationEnum::RPRIVATE)
}

/// The mount of one of the pod's files, which is read-only if the root file system is, as the engine's own files are.
/// The mount lacks the option to create a missing source as a directory, so the create fails if the file is missing.
pub(super) fn pod_file(
    source: &Path,
    target: &str,
    is_read_only: bool,
    engine: &EngineInfo,
) -> docker::Mount {
    let source = source.display().to_string();
    let propagation = private(&source, engine);
    let options = docker::MountBindOptions { propagation, ..docker::MountBindOptions::default() };
    bound(source, target, is_read_only, options)
}

/// Whether two paths in a container are the same, even if they are spelled differently.
pub(super) fn is_same_path(one: &str, other: &str) -> bool {
    parts(one) == parts(other)
}

/// Returns the mounts of image volumes, in the order of the container's mounts.
///
/// Docker 28.0 names an image mount after its source, and refuses two image mounts with the same name in a container. A
/// prefix of the id also names the image, so each further mount of an image uses a prefix that is one digit shorter.
/// The first mount uses the whole id, because otherwise the engine would not count the image as used.
struct ImageMounts<'a> {
    ready: std::slice::Iter<'a, ImageVolume>,
    /// Number of mounts so far of each image.
    used: HashMap<&'a ImageId, usize>,
}

impl ImageMounts<'_> {
    /// The next mount of an image volume. `image` is the image's name in the request, for errors.
    fn next(&mut self, mount: &Mount, image: &str) -> Result<docker::Mount, Failure> {
        let (image, target) = (printable(image), &mount.container_path);
        // kubelet evaluates the prefix `ImageVolumeMountFailed` of the error.
        let failed = |kind, reason: &str| {
            Failure::new(kind, reason).within(format_args!(
                "ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}"
            ))
        };
        let refused = |reason| failed(Kind::InvalidArgument, reason);
        if mount.propagation != Propagation::Private {
            return Err(refused("propagation must be private: nothing is mounted below an image"));
        }
        let unready = || failed(Kind::Internal, "internal error: the image is not mounted");
        let volume = self.ready.next().ok_or_else(unready)?;
        Ok(match &volume.source {
            VolumeSource::Directory { path } => {
                let source = path
                    .to_str()
                    .ok_or_else(|| refused("the path of the image's directory is not UTF-8"))?;
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

/// The prefix of the image's id for the next mount, after `before` mounts of the same image.
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

/// A read-only bind mount of the directory with the mounted layers of an image. The create fails if the directory is
/// missing. With an empty directory in its place, the container would see an empty image.
fn directory(source: &str, mount: &Mount) -> docker::Mount {
    let propagation = Some(MountBindOptionsPropagationEnum::RPRIVATE);
    let options = docker::MountBindOptions { propagation, ..docker::MountBindOptions::default() };
    bound(source.to_owned(), &mount.container_path, true, options)
}

/// Files that each container of a pod has: the request, dockbridge or the engine mounts them.
pub(super) const POD_FILES: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/hostname"];

/// With this number of digits, a prefix of an image id certainly identifies one image.
const MIN_DIGITS: usize = 32;
