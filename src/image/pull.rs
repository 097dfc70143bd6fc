//! One pull: the transfer, watched for stalls, and the look at what came of it.

use std::time::Instant;

use tokio::time::timeout;
use tracing::{debug, info};

use super::{error::ImageError, images::Images, stall::Transfer};
use crate::model::{id::ImageId, image::PullRequest};

impl Images {
    /// Pulls, and answers when the store shows the image.
    pub(super) async fn pull_now(&self, request: &PullRequest) -> Result<ImageId, ImageError> {
        let began = Instant::now();
        info!(image = %request.reference, "pulling");
        self.transfer(request).await?;
        // The reference, not the progress messages, says which image came: a tag may have been
        // moved, and a multi-platform index is known by another digest than its parts.
        let id = self.engine.inspect_image(&request.reference.to_string()).await?.id;
        self.store.refresh_image(&request.reference.to_string()).await?;
        info!(image = %request.reference, %id, took = ?began.elapsed(), "pulled");
        Ok(id)
    }

    async fn transfer(&self, request: &PullRequest) -> Result<(), ImageError> {
        let mut transfer = Transfer::default();
        let mut pull =
            self.unless_stalled(request, &transfer, self.engine.pull_image(request)).await??;
        while let Some(progress) = self.unless_stalled(request, &transfer, pull.next()).await? {
            let progress = progress?;
            debug!(image = %request.reference, layer = %progress.layer, status = %progress.status);
            transfer.note(&progress.layer, &progress.status);
        }
        Ok(())
    }

    /// Waits for the next sign of life, with a limit while it is the registry's turn.
    async fn unless_stalled<F: Future>(
        &self,
        request: &PullRequest,
        transfer: &Transfer,
        next: F,
    ) -> Result<F::Output, ImageError> {
        match self.settings.pull_stall.filter(|_| transfer.is_downloading()) {
            None => Ok(next.await),
            Some(silent) => timeout(silent, next)
                .await
                .map_err(|_| ImageError::Stalled { reference: request.reference.clone(), silent }),
        }
    }
}
