//! Reads an image through a container of it that is created for that, never started, and removed at
//! once. What a killed dockbridge leaves of them is removed at the next start.

use std::time::Duration;

use rand::Rng;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{error::ImageFilesError, service::ImageFiles};
use crate::{
    concurrency::single_flight::Lost,
    engine::{
        archive::{PathContent, PathKind},
        client::Engine,
    },
    error::chain,
    model::{id::ImageId, label},
    store::settings::SYNC_TIMEOUT,
    translate::plan::unstarted::unstarted,
};

/// An open inspection of an image. [`ImageInspection::close`] it; a dropped one is removed in the
/// background.
#[derive(Debug)]
pub struct ImageInspection {
    /// None once closed.
    container: Option<String>,
    engine: Engine,
    tracker: TaskTracker,
}

impl ImageFiles {
    /// Opens an inspection. While it is open the engine counts the image as in use.
    ///
    /// # Errors
    /// There is no such image, or the engine fails.
    pub async fn inspect(&self, image: &ImageId) -> Result<ImageInspection, ImageFilesError> {
        let name = format!("{}{:016x}", self.name_prefix(), rand::rng().random::<u64>());
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_INSPECTION);
        let (engine, tracker) = (self.engine.clone(), self.tracker.clone());
        // In a separate task, so that a cancelled caller leaves nothing behind.
        let opening = self.tracker.spawn(async move {
            match engine.create_container(&name, &body).await {
                Ok(container) => {
                    Ok(ImageInspection { container: Some(container), engine, tracker })
                }
                Err(error) => {
                    // After a broken answer it may have been created.
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
    /// The engine fails; whatever could be removed is.
    pub async fn sweep_inspections(&self) -> Result<(), ImageFilesError> {
        self.store.described(SYNC_TIMEOUT).await?;
        let all = self.engine.containers_named(NAME_PREFIX, label::IMAGE_INSPECTION).await?;
        // Listed last, so that it has whatever of ours the first list has.
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
    /// What is at an absolute path; a link in its last step is not followed, but returned with the
    /// path where all further links end.
    ///
    /// # Errors
    /// The engine fails, or the links go round in a ring.
    pub async fn step(&self, path: &str) -> Result<Option<PathKind>, ImageFilesError> {
        Ok(self.engine.path_kind(self.id(), path).await?)
    }

    /// Where the plain file at an absolute path is, after following links inside the image; none if
    /// the path is missing or a directory.
    ///
    /// # Errors
    /// The engine fails, the links form a loop, the file is larger than `limit` bytes, or it is a pipe
    /// or a device.
    pub async fn file(&self, path: &str, limit: u64) -> Result<Option<String>, ImageFilesError> {
        let (end, kind) = match self.step(path).await? {
            Some(PathKind::Link(end)) => (end.clone(), self.step(&end).await?),
            kind => (path.to_owned(), kind),
        };
        let path = path.to_owned();
        match kind {
            Some(PathKind::File(size)) if size > limit => {
                Err(ImageFilesError::TooLarge { path, size, limit })
            }
            Some(PathKind::File(_)) => Ok(Some(end)),
            Some(PathKind::Other) => Err(ImageFilesError::NotRegularFile { path }),
            Some(PathKind::Directory | PathKind::Link(_)) | None => Ok(None),
        }
    }

    /// The bytes of a file that [`Self::file`] found. Whatever is read, the engine looks up its owner in
    /// the image's own `/etc/passwd` and `/etc/group`: where one of them is a pipe, it never ends its
    /// answer, nor lets the container go.
    ///
    /// # Errors
    /// The engine fails.
    pub async fn read(&self, file: &str, limit: u64) -> Result<Option<Vec<u8>>, ImageFilesError> {
        match self.engine.read_path(self.id(), file, limit).await? {
            Some(PathContent::File(bytes)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Removes the container; the engine no longer has it on return.
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

/// A removal that fails is tried again until this process ends; the next one sweeps.
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

/// How often a removal is tried that failed.
const RETRY_EVERY: Duration = Duration::from_secs(10);

/// How their names begin, which no image can choose: its labels alone make no container ours.
const NAME_PREFIX: &str = "dockbridge-image-inspection-";
