//! Looks inside an image through a container of it that is made for the look, never started, and
//! removed at once. What a killed dockbridge leaves of them goes at the next start.

use std::time::Duration;

use rand::Rng;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{error::RootfsError, room::Rootfs};
use crate::{
    engine::{
        archive::{PathContent, PathKind},
        client::Engine,
    },
    error::chain,
    model::{id::ImageId, label},
    store::settings::SYNC_TIMEOUT,
    translate::plan::unstarted::unstarted,
};

/// An image held open for looks. [`Peek::close`] it; a dropped one is removed in the background.
#[derive(Debug)]
pub struct Peek {
    /// None once closed.
    container: Option<String>,
    engine: Engine,
    tracker: TaskTracker,
}

impl Rootfs {
    /// Opens an image for looks. While it is open the engine takes the image for used.
    ///
    /// # Errors
    /// There is no such image, or the engine fails.
    pub async fn peek(&self, image: &ImageId) -> Result<Peek, RootfsError> {
        let name = format!("{}{:016x}", self.peek_start(), rand::rng().random::<u64>());
        let body = unstarted(image, &self.volumes_of(image), label::IMAGE_INSPECTION);
        let (engine, tracker) = (self.engine.clone(), self.tracker.clone());
        // On a task of its own: a caller who goes away meanwhile leaves nothing behind.
        let opening = self.tracker.spawn(async move {
            match engine.create_container(&name, &body).await {
                Ok(container) => Ok(Peek { container: Some(container), engine, tracker }),
                Err(error) => {
                    // A broken answer does not tell whether it was made.
                    remove(&engine, &name).await;
                    Err(error.into())
                }
            }
        });
        opening.await.map_err(|_| RootfsError::Lost)?
    }

    /// Removes what dockbridges before this one left of their looks.
    ///
    /// # Errors
    /// The engine fails; whatever could be removed is.
    pub async fn sweep_peeks(&self) -> Result<(), RootfsError> {
        self.store.described(SYNC_TIMEOUT).await?;
        let all = self.engine.containers_named(PEEK_START, label::IMAGE_INSPECTION).await?;
        // Listed last, so that it has whatever of ours the first list has.
        let mine =
            self.engine.containers_named(&self.peek_start(), label::IMAGE_INSPECTION).await?;
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

    /// How the names of this process's looks begin.
    fn peek_start(&self) -> String {
        format!("{PEEK_START}{:08x}-", self.token)
    }
}

impl Peek {
    /// What is at an absolute path, links followed inside the image; none where nothing is.
    ///
    /// # Errors
    /// The engine fails, or the links go round in a ring.
    pub async fn kind(&self, path: &str) -> Result<Option<PathKind>, RootfsError> {
        match self.engine.path_kind(self.id(), path).await? {
            Some(PathKind::Link(end)) => Ok(self.engine.path_kind(self.id(), &end).await?),
            kind => Ok(kind),
        }
    }

    /// What is at an absolute path; a link in its last step is not followed, but told with the
    /// place where all further links end.
    ///
    /// # Errors
    /// The engine fails, or the links go round in a ring.
    pub async fn step(&self, path: &str) -> Result<Option<PathKind>, RootfsError> {
        Ok(self.engine.path_kind(self.id(), path).await?)
    }

    /// Where the plain file at an absolute path is, links followed inside the image; none where
    /// nothing or a folder is.
    ///
    /// # Errors
    /// The engine fails, the links go round in a ring, the file is larger than `limit` bytes, or it
    /// is a pipe or a device.
    pub async fn file(&self, path: &str, limit: u64) -> Result<Option<String>, RootfsError> {
        let (end, kind) = match self.step(path).await? {
            Some(PathKind::Link(end)) => (end.clone(), self.step(&end).await?),
            kind => (path.to_owned(), kind),
        };
        let path = path.to_owned();
        match kind {
            Some(PathKind::File(size)) if size > limit => {
                Err(RootfsError::TooLarge { path, size, limit })
            }
            Some(PathKind::File(_)) => Ok(Some(end)),
            Some(PathKind::Other) => Err(RootfsError::NoFile { path }),
            Some(PathKind::Directory | PathKind::Link(_)) | None => Ok(None),
        }
    }

    /// The bytes of a file that [`Self::file`] found. Whatever is read, the engine looks up its owner in
    /// the image's own `/etc/passwd` and `/etc/group`: where one of them is a pipe, it never ends its
    /// answer, nor lets the container go.
    ///
    /// # Errors
    /// The engine fails.
    pub async fn read(&self, file: &str, limit: u64) -> Result<Option<Vec<u8>>, RootfsError> {
        match self.engine.read_path(self.id(), file, limit).await? {
            Some(PathContent::File(bytes)) => Ok(Some(bytes)),
            _ => Ok(None),
        }
    }

    /// Ends the look; the engine has forgotten it on return.
    pub async fn close(mut self) {
        if let Some(container) = self.container.take() {
            remove(&self.engine, &container).await;
        }
    }

    fn id(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }
}

impl Drop for Peek {
    fn drop(&mut self) {
        let Some(container) = self.container.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let engine = self.engine.clone();
        self.tracker.spawn_on(async move { remove(&engine, &container).await }, &runtime);
    }
}

/// What stays is tried again for as long as this process lives; the next one sweeps.
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
const PEEK_START: &str = "dockbridge-peek-";
