//! Images mounted into a container.
//!
//! The engine (28.0) names such a mount after its source, and refuses two with the same name in a container. Any
//! prefix of an id also names the image, so each further mount of it uses a prefix that is one digit shorter. The
//! first mount uses the whole id, because only then the engine counts the image as used.

use std::collections::HashMap;

use super::error::PlanError;
use crate::{
    error::Kind,
    model::{
        container::{Mount, Propagation},
        id::ImageId,
        reference::printable,
        volume::{ImageVolume, VolumeSource},
    },
    wire::docker::{self, MountBindOptionsPropagationEnum},
};

/// Returns the image mounts in the order of the specification.
pub(super) struct ImageMounts<'a> {
    ready: std::slice::Iter<'a, ImageVolume>,
    /// How often each image is already mounted.
    used: HashMap<&'a ImageId, usize>,
}

impl<'a> ImageMounts<'a> {
    pub(super) fn new(ready: &'a [ImageVolume]) -> Self {
        Self { ready: ready.iter(), used: HashMap::new() }
    }

    /// The next mount. `image` is its name in the request, for errors.
    pub(super) fn next(&mut self, mount: &Mount, image: &str) -> Result<docker::Mount, PlanError> {
        let (image, target) = (printable(image), &mount.container_path);
        // kubelet reads the prefix.
        let failed = |kind, reason: &str| PlanError::Refused {
            kind,
            text: format!(
                "ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}: {reason}"
            ),
        };
        let refused = |reason| failed(Kind::InvalidArgument, reason);
        if mount.propagation != Propagation::Private {
            return Err(refused("its propagation must be private: nothing is mounted below it"));
        }
        let unready = || failed(Kind::Internal, "it was not prepared");
        let volume = self.ready.next().ok_or_else(unready)?;
        Ok(match &volume.source {
            VolumeSource::Directory { path } => {
                let source = path.to_str().ok_or_else(|| refused("its path is not UTF-8"))?;
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
    docker::Mount {
        typ: Some(docker::MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(mount.container_path.clone()),
        read_only: Some(true),
        bind_options: Some(docker::MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..docker::MountBindOptions::default()
        }),
        ..docker::Mount::default()
    }
}

/// How many digits of an id certainly identify one image.
const MIN_DIGITS: usize = 32;
