//! Images that are mounted into a container as volumes. dockbridge locks the images of a new container until the store
//! shows the container, whose document then says that the images are in use.

use std::collections::BTreeSet;

use tracing::warn;

use super::node::Node;
use crate::{
    error::{Failure, chain},
    image_files::directory::{ImageLocks, no_image},
    model::{
        container::{ContainerSpec, Mount},
        document::ContainerDocument,
        id::ImageId,
        reference::printable,
        volume::{ImageVolume, MountedImage},
    },
    store::snapshot::Snapshot,
};

/// The image volumes of a container that is being created.
#[derive(Debug)]
pub(super) struct Volumes {
    /// The volumes, in the order of the container's specification.
    pub(super) ready: Vec<ImageVolume>,
    locks: ImageLocks,
}

impl Node {
    /// If the caller cannot create the container, the caller must [release the volumes](Self::release_volumes).
    pub(super) async fn volumes(
        &self,
        snapshot: &Snapshot,
        spec: &ContainerSpec,
    ) -> Result<Volumes, Failure> {
        let engine = snapshot.described()?;
        let mut meant = Vec::new();
        for (mount, name) in image_mounts(spec) {
            let found = self.image(snapshot, name).await;
            let image = found.and_then(|image| image.ok_or_else(no_image));
            let image = image.map_err(|cause| refused(name, mount, cause))?;
            meant.push((mount, name, image.id.clone()));
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

    pub(super) async fn release_volumes(&self, volumes: Volumes) {
        self.release_images(volumes.locks.unlock()).await;
    }

    pub(super) async fn release_mounted(&self, mounted: &[MountedImage]) {
        self.release_images(unpacked(mounted)).await;
    }

    /// Mounts missing image directories of a container again, for example after a reboot. The directories
    /// stay mounted at least until the returned locks are dropped.
    pub(super) async fn ensure_mounted(
        &self,
        document: &ContainerDocument,
    ) -> Result<ImageLocks, Failure> {
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

    /// Releases those images that no container needs. If the release of an image fails, the next sweep tries again.
    async fn release_images(&self, images: BTreeSet<ImageId>) {
        for image in images {
            if let Err(error) = self.image_files.release(&image).await {
                warn!(%image, error = chain(&error), "cannot remove the directory with the mounted layers of an image; retrying later");
            }
        }
    }
}

/// The mounts of images in the container's specification, each with the name of its image.
fn image_mounts(spec: &ContainerSpec) -> impl Iterator<Item = (&Mount, &str)> {
    spec.mounts.iter().filter_map(|mount| Some((mount, mount.image.as_deref()?)))
}

fn unpacked(mounted: &[MountedImage]) -> BTreeSet<ImageId> {
    mounted.iter().filter(|one| one.unpacked).map(|one| one.image.clone()).collect()
}

/// The error if an image cannot be mounted. kubelet reads the prefix `ImageVolumeMountFailed`.
fn refused(image: &str, mount: &Mount, cause: Failure) -> Failure {
    let (image, target) = (printable(image), &mount.container_path);
    cause.within(format_args!(
        "ImageVolumeMountFailed: image {image:?} cannot be mounted at {target:?}"
    ))
}
