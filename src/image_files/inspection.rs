//! Reads an image through a container that is created for this, never started, and removed at once. If
//! dockbridge was killed, the next start removes such containers.

use std::time::Duration;

use rand::Rng;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{error::UnreadableFile, service::ImageFiles};
use crate::{
    concurrency::single_flight::Lost,
    engine::{
        archive::{Export, PathContent, PathKind},
        client::Engine,
        error::EngineError,
    },
    error::{Failure, chain},
    model::{id::ImageId, label},
    store::settings::SYNC_TIMEOUT,
    translate::plan::unstarted::unstarted,
};

/// An open inspection of an image. The caller must call [`ImageInspection::close`]; a dropped one is
/// removed in the background.
#[derive(Debug)]
pub struct ImageInspection {
    /// None after closing.
    container: Option<String>,
    engine: Engine,
    tracker: TaskTracker,
}

impl ImageFiles {
    /// Opens an inspection. While it is open, the engine counts the image as in use. Fails if the image
    /// does not exist.
    pub async fn inspect(&self, image: &ImageId) -> Result<ImageInspection, Failure> {
        let name = format!("{}{:016x}", self.name_prefix(), rand::rng().random::<u64>());
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_INSPECTION);
        let (engine, tracker) = (self.engine.clone(), self.tracker.clone());
        // Runs in a separate task, so that no container is left when the caller is cancelled.
        let opening = self.tracker.spawn(async move {
            match engine.create_container(&name, &body).await {
                Ok(container) => {
                    Ok(ImageInspection { container: Some(container), engine, tracker })
                }
                Err(error) => {
                    // The answer was incomplete, so the container may have been created.
                    remove(&engine, &name).await;
                    Err(error.into())
                }
            }
        });
        opening.await.map_err(|_| Lost)?
    }

    /// Removes the inspection containers that earlier processes left.
    ///
    /// # Errors
    /// The engine fails. Everything that could be removed has been removed.
    pub async fn sweep_inspections(&self) -> Result<(), Failure> {
        self.store.described(SYNC_TIMEOUT).await?;
        let all = self.engine.containers_named(NAME_PREFIX, label::IMAGE_INSPECTION).await?;
        // Listed after the first list, so that it contains all our own containers of the first list.
        let mine =
            self.engine.containers_named(&self.name_prefix(), label::IMAGE_INSPECTION).await?;
        let mut outcome = Ok(());
        for id in all {
            if mine.contains(&id) {
                continue;
            }
            info!(container = id, "leftover image inspection container removed");
            outcome = outcome.and(self.engine.remove_container(&id).await);
        }
        Ok(outcome?)
    }

    /// The first part of the names of this process's inspection containers.
    fn name_prefix(&self) -> String {
        format!("{NAME_PREFIX}{:08x}-", self.token)
    }
}

impl ImageInspection {
    /// What is at an absolute path. If the last step is a link, it is not followed, but returned with the
    /// path at which all other links end. Fails if the links form a loop.
    pub async fn step(&self, path: &str) -> Result<Option<PathKind>, EngineError> {
        self.engine.path_kind(self.id(), path).await
    }

    /// The path of the regular file at an absolute path, after following links inside the image. None if
    /// the path is missing or a directory.
    ///
    /// # Errors
    /// The engine fails, the links form a loop, the file is larger than `limit` bytes, or it is a pipe
    /// or a device.
    pub async fn file(&self, path: &str, limit: u64) -> Result<Option<String>, UnreadableFile> {
        let step = async |path| self.step(path).await.map_err(Failure::from);
        let (end, kind) = match step(path).await? {
            Some(PathKind::Link(end)) => (end.clone(), step(&end).await?),
            kind => (path.to_owned(), kind),
        };
        let path = path.to_owned();
        match kind {
            Some(PathKind::File(size)) if size > limit => Err(Failure::unmet(format!(
                "{path} of the image has {size} bytes, more than the limit of {limit}"
            ))
            .into()),
            Some(PathKind::File(_)) => Ok(Some(end)),
            Some(PathKind::Other) => Err(UnreadableFile::NotRegular { path }),
            Some(PathKind::Directory | PathKind::Link(_)) | None => Ok(None),
        }
    }

    /// The bytes of a file that [`Self::file`] found. For every read, the engine looks up the file's owner
    /// in the image's own `/etc/passwd` and `/etc/group`. If one of them is a pipe, the engine never
    /// finishes its answer and never releases the container.
    pub async fn read(&self, file: &str, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
        match self.engine.read_path(self.id(), file, limit).await? {
            Some(PathContent::File(bytes)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// All files of the image.
    pub async fn export(&self) -> Result<Export, Failure> {
        Ok(self.engine.export(self.id()).await?)
    }

    /// Removes the container. On return, the engine no longer has it.
    pub async fn close(mut self) {
        if let Some(container) = self.container.take() {
            remove(&self.engine, &container).await;
        }
    }

    fn id(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }
}

impl Drop for ImageInspection {
    fn drop(&mut self) {
        let Some(container) = self.container.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let engine = self.engine.clone();
        self.tracker.spawn_on(async move { remove(&engine, &container).await }, &runtime);
    }
}

/// A failed removal is tried again until this process ends. After that, the next process removes the
/// container.
async fn remove(engine: &Engine, container: &str) {
    let Err(error) = engine.remove_container(container).await else { return };
    let error = chain(&error);
    warn!(container, error, "cannot remove an image inspection container yet; retrying");
    let (engine, container) = (engine.clone(), container.to_owned());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(RETRY_EVERY).await;
            if engine.remove_container(&container).await.is_ok() {
                break;
            }
        }
    });
}

/// The pause between two tries to remove a container.
const RETRY_EVERY: Duration = Duration::from_secs(10);

/// The start of the names of inspection containers. An image cannot choose it: labels alone, which an image
/// can set, do not make a container ours.
const NAME_PREFIX: &str = "dockbridge-image-inspection-";
