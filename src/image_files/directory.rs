//! Mounts the layers of an image as a read-only overlay, so that the image is a directory of this host.
//!
//! The labels of containers say which containers need the directory. dockbridge creates a directory and its pin before
//! the first container that needs them, and removes them after the removal of the last one. The code that creates a
//! container holds the image's lock until the store shows the container.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
use tracing::{debug, warn};

use super::{service::ImageFiles, volume::unsupported};
use crate::{
    concurrency::blocking::blocking,
    engine::error::EngineError,
    error::{Failure, Kind, chain},
    host::overlay,
    model::{engine::EngineInfo, id::ImageId, label, record::Observed},
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
    translate::plan::unstarted::unstarted,
};

/// While this value exists, the directories of its images are not removed.
#[derive(Debug)]
pub struct ImageLocks {
    images: BTreeSet<ImageId>,
    _locks: Vec<OwnedRwLockReadGuard<()>>,
}

impl ImageLocks {
    /// Releases the locks and returns the images.
    pub fn unlock(self) -> BTreeSet<ImageId> {
        self.images
    }
}

impl ImageFiles {
    /// Locks images so that their directories are not removed. Locks all images of a caller in one call and in a fixed
    /// order, so that callers cannot deadlock.
    pub async fn lock(&self, images: BTreeSet<ImageId>) -> ImageLocks {
        let mut locks = Vec::new();
        for image in &images {
            locks.push(self.locks.read(image.as_str()).await);
        }
        ImageLocks { images, _locks: locks }
    }

    /// The root of the image's directory, mounted if necessary. The caller must hold [`Self::lock`].
    ///
    /// # Errors
    /// The engine fails, lacks the image or does not see the mount, or the layers cannot be found or mounted.
    pub async fn directory(
        &self,
        engine: &EngineInfo,
        image: &ImageId,
    ) -> Result<PathBuf, Failure> {
        let _alone = self.making.write(image.as_str()).await;
        let new = self.pin(image).await?;
        let root = self.directory_of(image);
        // A new pin needs a new mount, because the image may have been pulled again into other directories.
        let place = root.clone();
        if new || !blocking(move || overlay::is_mounted(&place)).await {
            self.mount_layers(engine, image).await?;
        }
        let (socket, shown) = (self.engine.socket().to_owned(), root.clone());
        match blocking(move || overlay::is_visible_to(&socket, &shown)).await {
            true => Ok(root),
            false => Err(Failure::unmet(format!(
                "dockbridge cannot find its mount at {} among Docker's mounts: run Docker and dockbridge in one \
                 mount namespace, or make the mount above that path shared (mount --make-rshared)",
                root.display()
            ))),
        }
    }

    /// Removes the directory of an image and its pin, if the store knows all containers and none needs them. Fails
    /// if the engine fails, or the directory cannot be removed.
    pub async fn release(&self, image: &ImageId) -> Result<(), Failure> {
        let alone = self.locks.write(image.as_str()).await;
        self.release_locked(image, alone).await
    }

    /// Removes the pin before the directory: if the second removal fails, a sweep still finds the directory.
    async fn release_locked(
        &self,
        image: &ImageId,
        _alone: OwnedRwLockWriteGuard<()>,
    ) -> Result<(), Failure> {
        let now = self.store.synced(SYNC_TIMEOUT).await?;
        if !now.is_complete() || needed(&now).contains(image) {
            // Either a container needs the directory, or the store does not know all containers yet. Once the
            // store knows all containers, a sweep removes the directory if no container needs it.
            return Ok(());
        }
        self.unpin(image).await?;
        let root = self.directory_of(image);
        blocking(move || overlay::unmount(&root)).await?;
        debug!(%image, "removed the directory with an image's mounted layers, if there was one");
        Ok(())
    }

    /// Repairs the directories after a crash, a reboot, or the removal of a container by another program:
    /// mounts directories that containers need, and removes the others, except those of locked images.
    pub async fn restore_directories(&self) {
        match self.pinned().await {
            Ok(pinned) => self.release_all(pinned).await,
            Err(error) => {
                warn!(
                    error = chain(&error),
                    "cannot list the containers that keep the images of image volumes; leftover ones may stay until the next start of dockbridge"
                );
            }
        }
        self.sweep().await;
        let now = self.store.snapshot();
        let Some(engine) = now.engine.clone() else { return };
        for image in needed(&now) {
            if let Err(error) = self.restore(&engine, &image).await {
                warn!(%image, error = chain(&error), "cannot restore an image volume that a container uses; retrying");
            }
        }
    }

    /// Pins and mounts the image again if a container still needs it. Returns whether the pin is new.
    pub(super) async fn restore(
        &self,
        engine: &EngineInfo,
        image: &ImageId,
    ) -> Result<bool, Failure> {
        let _locks = self.lock([image.clone()].into()).await;
        if !needed(&self.store.snapshot()).contains(image) {
            return Ok(false);
        }
        let new = self.pin(image).await?;
        self.directory(engine, image).await?;
        Ok(new)
    }

    /// Removes the images' directories that no container needs, except those of locked images.
    pub async fn sweep(&self) {
        let directories = self.directories.clone();
        let found = blocking(move || images_in(&directories)).await;
        self.release_all(found).await;
    }

    /// Releases images that no container needs, except locked ones.
    async fn release_all(&self, images: Vec<ImageId>) {
        for image in images {
            if !needed(&self.store.snapshot()).contains(&image)
                && let Some(alone) = self.locks.try_write(image.as_str())
                && let Err(error) = self.release_locked(&image, alone).await
            {
                warn!(%image, error = chain(&error), "cannot remove the directory with the mounted layers of an image; retrying later");
            }
        }
    }

    async fn mount_layers(&self, engine: &EngineInfo, image: &ImageId) -> Result<(), Failure> {
        let layers = match self.engine.image_layers(image).await {
            Err(error) if error.is_not_found() => return Err(no_image()),
            layers => layers?.ok_or_else(|| unsupported(engine))?,
        };
        let root = self.directory_of(image);
        Ok(blocking(move || {
            overlay::unmount(&root).and_then(|()| overlay::mount_layers(&layers, &root))
        })
        .await?)
    }

    pub(super) fn directory_of(&self, image: &ImageId) -> PathBuf {
        self.directories.join(image.as_str().replace(':', "-"))
    }
}

/// Pins an image while its files are mounted, because the engine does not know that mount. Unless forced, the
/// engine does not remove an image that a container uses, so a pin is a container that is never started.
impl ImageFiles {
    /// Pins the image. Returns whether the pin is new.
    pub(super) async fn pin(&self, image: &ImageId) -> Result<bool, Failure> {
        let name = pin_name(image);
        match self.engine.inspect_container(&name).await {
            Err(error) if error.is_not_found() => {}
            answer => return Ok(answer.map(|_| false)?),
        }
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_PIN);
        match self.engine.create_container(&name, &body).await {
            Ok(_) => Ok(true),
            Err(EngineError::NameTaken { .. }) => Ok(false),
            Err(error) if error.is_not_found() => Err(no_image()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn unpin(&self, image: &ImageId) -> Result<(), Failure> {
        Ok(self.engine.remove_container(&pin_name(image)).await?)
    }

    pub(super) async fn pinned(&self) -> Result<Vec<ImageId>, Failure> {
        let mut images = Vec::new();
        for pin in self.engine.containers_named(NAME_START, label::IMAGE_PIN).await? {
            match self.engine.inspect_container(&pin).await {
                Ok(Observed::Foreign(pin)) => images.extend(pin.image),
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(images)
    }
}

/// The error if the engine does not have the image.
pub fn no_image() -> Failure {
    Failure::new(Kind::NotFound, "the image is not on this node: pull it first")
}

/// The images whose directories containers of pods mount, also containers that do not run.
pub(super) fn needed(now: &Snapshot) -> BTreeSet<ImageId> {
    let mounted = now.containers().iter().flat_map(|one| one.document.image_volumes.iter());
    let unpacked = mounted.filter(|one| one.unpacked).map(|one| one.image.clone());
    unpacked.collect()
}

fn images_in(directories: &Path) -> Vec<ImageId> {
    let Ok(entries) = fs::read_dir(directories) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| ImageId::try_from(name.replacen('-', ":", 1)).ok()).collect()
}

fn pin_name(image: &ImageId) -> String {
    format!("{NAME_START}{}", image.as_str().replace(':', "-"))
}

/// How the names of pins begin: unlike those of pods' containers, so that nobody takes a pin for a container of a pod.
const NAME_START: &str = "dockbridge-image-pin-";
