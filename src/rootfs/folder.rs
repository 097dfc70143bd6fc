//! An image as a folder of this host: its layers, laid over each other by us and read-only.
//!
//! The folder is there while a container needs it, by the word of the containers' documents, so
//! that nothing is lost with this process. A container that runs keeps its own hold on the mount.
//! A folder and its holder come before the container and go after it; who makes a container keeps
//! the image's lock until the store shows it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
use tracing::{debug, warn};

use super::{error::RootfsError, room::Rootfs};
use crate::{
    error::chain,
    host::{error::HostError, overlay},
    model::{engine::EngineInfo, id::ImageId},
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
};

/// While this lives, the folders of these images are not taken away.
#[derive(Debug)]
pub struct Kept {
    images: BTreeSet<ImageId>,
    _locks: Vec<OwnedRwLockReadGuard<()>>,
}

impl Kept {
    /// Keeps them no longer; the images.
    pub fn end(self) -> BTreeSet<ImageId> {
        self.images
    }
}

impl Rootfs {
    /// Keeps the folders of images, where there are some, from being taken away. Always taken
    /// together and in one order, so that no two callers wait for each other.
    pub async fn keep(&self, images: BTreeSet<ImageId>) -> Kept {
        let mut locks = Vec::new();
        for image in &images {
            locks.push(self.locks.read(image.as_str()).await);
        }
        Kept { images, _locks: locks }
    }

    /// The root of the image's folder, which is made if need be; to be called under [`Self::keep`].
    ///
    /// # Errors
    /// The engine does not tell where the layers are, or this host does not let us mount them, or
    /// the engine does not see it.
    pub async fn folder(
        &self,
        engine: &EngineInfo,
        image: &ImageId,
    ) -> Result<PathBuf, RootfsError> {
        let _alone = self.making.write(image.as_str()).await;
        let new = self.hold(image).await?;
        let root = self.folder_of(image);
        // Without a holder the image may have gone and come back with other layers.
        if new || !is_shown(&root).await? {
            self.lay(engine, image).await?;
        }
        let (socket, shown) = (self.engine.socket().to_owned(), root.clone());
        match blocking(move || Ok(overlay::is_seen_by(&socket, &shown))).await? {
            true => Ok(root),
            false => Err(RootfsError::Unseen { path: root }),
        }
    }

    /// Takes the folder of an image away and lets the image go, unless a container needs it.
    ///
    /// # Errors
    /// The engine does not answer, or something is in the way.
    pub async fn let_go(&self, image: &ImageId) -> Result<(), RootfsError> {
        let alone = self.locks.write(image.as_str()).await;
        self.let_go_alone(image, alone).await
    }

    /// The holder goes first: what a sweep finds is the folder.
    async fn let_go_alone(
        &self,
        image: &ImageId,
        _alone: OwnedRwLockWriteGuard<()>,
    ) -> Result<(), RootfsError> {
        let now = self.store.synced(SYNC_TIMEOUT).await?;
        if !now.is_complete() || is_needed(&now, image) {
            // A sweep comes when everything is known.
            return Ok(());
        }
        self.release(image).await?;
        let root = self.folder_of(image);
        blocking(move || overlay::hide(&root)).await?;
        debug!(%image, "no unpacked directory of this image exists");
        Ok(())
    }

    /// Makes good what a crash, a reboot or somebody else's removal of a container left: folders
    /// that are needed are there, others are not.
    pub async fn put_right(&self) {
        match self.held().await {
            Ok(held) => self.let_go_of(held).await,
            Err(error) => {
                warn!(error = chain(&error), "cannot list the images pinned for containers");
            }
        }
        self.sweep().await;
        let now = self.store.snapshot();
        let Some(engine) = now.engine.clone() else { return };
        for image in needed(&now) {
            if let Err(error) = self.restore(&engine, &image).await {
                warn!(%image, error = chain(&error), "cannot unpack an image that a container uses; retrying");
            }
        }
    }

    /// Has the image kept and unpacked again, if it is still needed; whether it had to be.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub(super) async fn restore(
        &self,
        engine: &EngineInfo,
        image: &ImageId,
    ) -> Result<bool, RootfsError> {
        let _kept = self.keep([image.clone()].into()).await;
        if !is_needed(&self.store.snapshot(), image) {
            return Ok(false);
        }
        let new = self.hold(image).await?;
        self.folder(engine, image).await?;
        Ok(new)
    }

    /// Takes away the folders that nobody needs, as far as this host shows them.
    pub async fn sweep(&self) {
        let folders = self.folders.clone();
        let shown = blocking(move || Ok(images_in(&folders))).await.unwrap_or_default();
        self.let_go_of(shown).await;
    }

    /// An image that is in somebody's hands is left to them: they let it go if need be.
    async fn let_go_of(&self, images: Vec<ImageId>) {
        for image in images {
            if !is_needed(&self.store.snapshot(), &image)
                && let Some(alone) = self.locks.try_write(image.as_str())
                && let Err(error) = self.let_go_alone(&image, alone).await
            {
                warn!(%image, error = chain(&error), "cannot remove the unpacked directory of an image; retrying later");
            }
        }
    }

    async fn lay(&self, engine: &EngineInfo, image: &ImageId) -> Result<(), RootfsError> {
        let layers = match self.engine.image_layers(image).await {
            Err(error) if error.is_not_found() => return Err(RootfsError::NoImage),
            layers => layers?.ok_or_else(|| RootfsError::no_way(engine))?,
        };
        let root = self.folder_of(image);
        blocking(move || overlay::hide(&root).and_then(|()| overlay::show(&layers, &root))).await
    }

    fn folder_of(&self, image: &ImageId) -> PathBuf {
        self.folders.join(image.as_str().replace(':', "-"))
    }
}

/// Whether a container is made of the image's folder.
fn is_needed(now: &Snapshot, image: &ImageId) -> bool {
    let unpacked = |container: &crate::model::record::ContainerRecord| {
        let mut mounted = container.document.image_volumes.iter();
        mounted.any(|one| one.unpacked && one.image == *image)
    };
    now.mounting(image).any(|container| unpacked(container))
}

/// The images whose folders containers are made of.
pub(super) fn needed(now: &Snapshot) -> BTreeSet<ImageId> {
    let mounted = now.containers().iter().flat_map(|one| one.document.image_volumes.iter());
    let unpacked = mounted.filter(|one| one.unpacked).map(|one| one.image.clone());
    unpacked.collect()
}

fn images_in(folders: &Path) -> Vec<ImageId> {
    let Ok(entries) = std::fs::read_dir(folders) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| ImageId::try_from(name.replacen('-', ":", 1)).ok()).collect()
}

async fn is_shown(root: &Path) -> Result<bool, RootfsError> {
    let root = root.to_owned();
    blocking(move || Ok(overlay::is_shown(&root))).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, RootfsError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| RootfsError::Lost)?;
    Ok(done?)
}
