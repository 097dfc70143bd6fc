//! Restores the pins of images that containers mount. `docker system prune` first removes every container
//! that is not running, also the pins, and then images without containers. If dockbridge creates the pin
//! again between these steps, Docker keeps the image, and running containers keep their files.

use std::{collections::BTreeSet, convert::Infallible, future::pending, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use tracing::warn;

use super::{directory::needed, service::ImageFiles};
use crate::{
    concurrency::blocking::blocking, error::chain, host::overlay, model::id::ImageId,
    store::snapshot::Snapshot,
};

impl ImageFiles {
    /// Restores missing pins and directories; never returns.
    pub async fn restore_volumes(&self) -> Infallible {
        // Images that could not be restored, often because nobody has pulled removed images again.
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
                        warn!(%image, "the container that pins an image was removed; dockbridge created it again");
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

    /// The images that containers mount and whose directories are not mounted, also if their pins exist.
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
/// How long dockbridge waits before it tries again to restore images that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
