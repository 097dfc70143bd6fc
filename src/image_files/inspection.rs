//! Reads the files of an image through an inspection container, which dockbridge creates, never starts, and
//! soon removes. If dockbridge is killed, the next dockbridge process removes leftover inspection containers.

use std::time::Duration;

use rand::Rng;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{error::UnreadableFile, service::ImageFiles};
use crate::{
    concurrency::single_flight::Lost,
    engine::{
        archive::{Export, PathKind},
        client::Engine,
        error::EngineError,
    },
    error::{Failure, chain},
    model::{id::ImageId, label},
    store::settings::SYNC_TIMEOUT,
    translate::plan::unstarted::unstarted,
};

/// An open inspection of an image. The caller must call [`ImageInspection::close`]. If the caller drops the
/// inspection instead, dockbridge removes the inspection's container in the background.
#[derive(Debug)]
pub struct ImageInspection {
    /// The id of the inspection's container; None after the inspection was closed.
    container: Option<String>,
    engine: Engine,
    tracker: TaskTracker,
}

impl ImageFiles {
    /// Opens an inspection, during which the engine counts the image as used. Fails if the engine lacks the image.
    pub async fn inspect(&self, image: &ImageId) -> Result<ImageInspection, Failure> {
        let name = format!("{}{:016x}", self.name_prefix(), rand::rng().random::<u64>());
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_INSPECTION);
        let (engine, tracker) = (self.engine.clone(), self.tracker.clone());
        // Creates the container in a separate task, so that no container is left if the caller is cancelled.
        let opening = self.tracker.spawn(async move {
            match engine.create_container(&name, &body).await {
                Ok(container) => {
                    Ok(ImageInspection { container: Some(container), engine, tracker })
                }
                Err(error) => {
                    // Even though the call failed, the engine may have created the container.
                    remove(&engine, &name).await;
                    Err(error.into())
                }
            }
        });
        opening.await.map_err(|_| Lost)?
    }

    /// Removes the inspection containers that earlier dockbridge processes have left.
    ///
    /// # Errors
    /// The engine is unavailable, or a call fails. After a failed removal, the other removals are still tried.
    pub async fn sweep_inspections(&self) -> Result<(), Failure> {
        self.store.described(SYNC_TIMEOUT).await?;
        let all = self.engine.containers_named(NAME_PREFIX, label::IMAGE_INSPECTION).await?;
        // `mine` is a newer list than `all`, so each container of this process in `all` is also in `mine`, unless
        // the container is gone.
        let mine =
            self.engine.containers_named(&self.name_prefix(), label::IMAGE_INSPECTION).await?;
        let mut outcome = Ok(());
        for id in all.into_iter().filter(|id| !mine.contains(id)) {
            info!(
                container = id,
                "removing an image inspection container that an earlier dockbridge process left"
            );
            outcome = outcome.and(self.engine.remove_container(&id).await);
        }
        Ok(outcome?)
    }

    fn name_prefix(&self) -> String {
        format!("{NAME_PREFIX}{:08x}-", self.token)
    }
}

impl ImageInspection {
    /// The type of the file at an absolute path. If the path is a link, returns the path to which the link
    /// finally leads. Fails if the links form a loop.
    pub async fn step(&self, path: &str) -> Result<Option<PathKind>, EngineError> {
        self.engine.path_kind(self.id(), path).await
    }

    /// The path of the regular file to which an absolute path leads, after following links inside the image.
    /// None if the path leads to nothing or to a directory.
    ///
    /// # Errors
    /// The engine fails, the links form a loop, the file is larger than `limit` bytes, or it is a device, a pipe or a
    /// socket.
    pub async fn file(&self, path: &str, limit: u64) -> Result<Option<String>, UnreadableFile> {
        let step = async |path| self.step(path).await.map_err(Failure::from);
        let (end, kind) = match step(path).await? {
            Some(PathKind::Link(end)) => (end.clone(), step(&end).await?),
            kind => (path.to_owned(), kind),
        };
        let path = path.to_owned();
        match kind {
            Some(PathKind::File(size)) if size > limit => Err(Failure::unmet(format!(
                "file {path} in the image has {size} bytes, more than the limit of {limit}"
            ))
            .into()),
            Some(PathKind::File(_)) => Ok(Some(end)),
            Some(PathKind::Other) => Err(UnreadableFile::NotRegular { path }),
            Some(PathKind::Directory | PathKind::Link(_)) | None => Ok(None),
        }
    }

    /// The content of a file that [`Self::file`] has found. The caller must first have checked `/etc/passwd` and
    /// `/etc/group` with [`Self::file`]: on each read, the engine looks up the file's owner in both. If `/etc/passwd`
    /// or `/etc/group` is a pipe, the engine never answers and never releases the container.
    pub async fn read(&self, file: &str, limit: u64) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.engine.read_path(self.id(), file, limit).await?)
    }

    /// Exports all files of the image.
    pub async fn export(&self) -> Result<Export, Failure> {
        Ok(self.engine.export(self.id()).await?)
    }

    /// Removes the inspection container. Returns after the first attempt; retries are in the background.
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

/// Removes a container, and retries in the background. The next dockbridge process removes a container that is left.
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

const RETRY_EVERY: Duration = Duration::from_secs(10);

/// The start of the names of inspection containers. Only a container with such a name counts as an inspection
/// container: an image can set labels, but not the names of containers.
const NAME_PREFIX: &str = "dockbridge-image-inspection-";
