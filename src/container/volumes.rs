//! The images mounted into a container: prepared before its create, and locked until the store shows
//! the container. From then on its document says that they are needed.

use std::{collections::BTreeSet, sync::Arc};

use tracing::warn;

use super::{error::ContainerError, node::Node};
use crate::{
    error::chain,
    image_files::{directory::ImageLocks, error::ImageFilesError},
    model::{
        container::{ContainerSpec, Mount},
        document::ContainerDocument,
        id::ImageId,
        reference::printable,
        volume::{ImageVolume, MountedImage},
    },
    store::snapshot::Snapshot,
};

/// The image volumes of a container that is being made.
#[derive(Debug)]
pub(super) struct Volumes {
    /// In the order of the specification.
    pub(super) ready: Vec<ImageVolume>,
    locks: ImageLocks,
}

impl Node {
    /// Makes the image volumes of a container ready. A caller that then fails to create the container
    /// [releases them](Self::release_volumes).
    pub(super) async fn volumes(
        &self,
        snapshot: &Snapshot,
        spec: &ContainerSpec,
    ) -> Result<Volumes, ContainerError> {
        let engine = snapshot.described()?;
        let mut meant = Vec::new();
        for (mount, name) in image_mounts(spec) {
            let image = self.meant(snapshot, name).await;
            meant.push((mount, name, image.map_err(|cause| refused(name, mount, cause))?));
        }
        let images = meant.iter().map(|(_, _, image)| image.clone()).collect();
        let mut volumes = Volumes { ready: Vec::new(), locks: self.image_files.lock(images).await };
        for (mount, name, image) in meant {
            match self.image_files.volume(engine, &image, &mount.image_sub_path).await {
                Ok(ready) => volumes.ready.push(ready),
                Err(cause) => {
                    self.release_volumes(volumes).await;
                    return Err(refused(name, mount, cause));
                }
            }
        }
        Ok(volumes)
    }

    /// Releases what only a container needed that was not created after all.
    pub(super) async fn release_volumes(&self, volumes: Volumes) {
        self.release_images(volumes.locks.unlock()).await;
    }

    /// Releases what only a container needed that is gone.
    pub(super) async fn release_mounted(&self, mounted: &[MountedImage]) {
        self.release_images(unpacked(mounted)).await;
    }

    /// Mounts the image directories of a container again if they are gone, as after a reboot. They stay
    /// until the returned locks are dropped.
    pub(super) async fn ensure_mounted(
        &self,
        document: &ContainerDocument,
    ) -> Result<ImageLocks, ContainerError> {
        let locks = self.image_files.lock(unpacked(&document.image_volumes)).await;
        for ((mount, name), mounted) in image_mounts(&document.spec).zip(&document.image_volumes) {
            if mounted.unpacked {
                let snapshot = self.store.snapshot();
                let directory =
                    self.image_files.directory(snapshot.described()?, &mounted.image).await;
                directory.map_err(|cause| refused(name, mount, cause))?;
            }
        }
        Ok(locks)
    }

    async fn meant(&self, snapshot: &Snapshot, name: &str) -> Result<ImageId, ImageFilesError> {
        match self.image(snapshot, name).await {
            Ok(image) => Ok(image.id.clone()),
            Err(ContainerError::Engine(error)) => Err(error.into()),
            Err(ContainerError::Store(error)) => Err(error.into()),
            Err(_) => Err(ImageFilesError::NoImage),
        }
    }

    /// What cannot be released now is released by the next sweep.
    async fn release_images(&self, images: BTreeSet<ImageId>) {
        for image in images {
            if let Err(error) = self.image_files.release(&image).await {
                warn!(%image, error = chain(&error), "cannot remove the unpacked directory of an image; retrying later");
            }
        }
    }
}

/// The mounts of images, each with what the caller calls the image.
fn image_mounts(spec: &ContainerSpec) -> impl Iterator<Item = (&Mount, &str)> {
    spec.mounts.iter().filter_map(|mount| Some((mount, mount.image.as_deref()?)))
}

fn unpacked(mounted: &[MountedImage]) -> BTreeSet<ImageId> {
    mounted.iter().filter(|one| one.unpacked).map(|one| one.image.clone()).collect()
}

fn refused(image: &str, mount: &Mount, cause: ImageFilesError) -> ContainerError {
    ContainerError::ImageVolume {
        image: printable(image).into_owned(),
        target: mount.container_path.clone(),
        cause: Arc::new(cause),
    }
}
