//! Restores the pins and directories of images that containers mount. A pin is a container that is never started.
//! `docker system prune --all` first removes every container that is not running, also the pins, and then images
//! without containers. If dockbridge creates the pin again between these two steps of the prune, Docker keeps the
//! image, and running containers that mount the image keep its files.

use std::{collections::BTreeSet, convert::Infallible, future::pending, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use tracing::warn;

use super::{directory::needed, service::ImageFiles};
use crate::{
    concurrency::blocking::blocking, error::chain, host::overlay, model::id::ImageId,
    store::snapshot::Snapshot,
};

impl ImageFiles {
    /// Restores missing pins and directories of images; never returns.
    pub async fn restore_volumes(&self) -> Infallible {
        // Images whose pin or directory could not be restored, often because the image was removed.
        let mut failed = BTreeSet::new();
        loop {
            let due = |now: &Arc<Snapshot>| {
                let due: Vec<ImageId> = missing(now).difference(&failed).cloned().collect();
                (!due.is_empty()).then_some(due).zip(now.engine.clone())
            };
            let (images, engine) = match timeout(RETRY_INTERVAL, self.store.when(due)).await {
                Ok(Some(found)) => found,
                // The store has ended, so dockbridge ends soon.
                Ok(None) => return pending().await,
                Err(_) => {
                    failed.clear();
                    let now = self.store.snapshot();
                    let Some(engine) = now.engine.clone() else { continue };
                    (self.not_mounted(&now).await, engine)
                }
            };
            for image in images {
                match self.restore(&engine, &image).await {
                    Ok(true) => {
                        warn!(%image, "the container that keeps the image of an image volume was removed; dockbridge created it again");
                    }
                    Ok(false) => {}
                    Err(error) => {
                        let error = chain(&error);
                        warn!(%image, error, "cannot restore an image volume that a container uses; retrying");
                        failed.insert(image);
                    }
                }
            }
            // Gives the store time to show the new pins: otherwise they would count as missing again.
            sleep(SETTLE).await;
        }
    }

    /// The images of [`needed`] whose directories are not mounted, whether or not the images have pins.
    async fn not_mounted(&self, now: &Snapshot) -> Vec<ImageId> {
        let all: Vec<_> =
            needed(now).into_iter().map(|image| (self.directory_of(&image), image)).collect();
        blocking(move || {
            let lost = all.into_iter().filter(|(directory, _)| !overlay::is_mounted(directory));
            lost.map(|(_, image)| image).collect()
        })
        .await
    }
}

fn missing(now: &Snapshot) -> BTreeSet<ImageId> {
    needed(now).into_iter().filter(|image| !now.is_used_by_hidden(image)).collect()
}

const SETTLE: Duration = Duration::from_secs(1);
/// If no other pin becomes missing during this time, dockbridge tries again to restore the images in `failed`, and
/// searches for directories that are not mounted.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
