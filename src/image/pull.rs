//! One pull: the transfer, watched for stalls, and the look at what came of it.

use std::time::Instant;

use tokio::time::timeout_at;
use tracing::{info, trace};

use super::{
    error::ImageError,
    images::Images,
    stall::{Stall, Watch},
};
use crate::{
    model::{id::ImageId, image::PullRequest, reference::ImageReference},
    store::snapshot::Snapshot,
};

impl Images {
    /// Pulls, and answers when the store shows the image.
    pub(super) async fn pull_now(&self, request: &PullRequest) -> Result<ImageId, ImageError> {
        let began = Instant::now();
        info!(image = %request.reference, "pulling");
        let before = self.store.snapshot();
        let transfer = self.metrics.begin(&request.reference);
        let transferred = self.transfer(request).await;
        transfer.finish(transferred.as_ref().err());
        transferred?;
        // The reference, not the progress messages, says which image came: a tag may have been
        // moved, and a multi-platform index is known by another digest than its parts.
        let id = self.engine.inspect_image(&request.reference.to_string()).await?.id;
        self.remember(&before, &id, &request.reference).await?;
        info!(image = %request.reference, %id, took = ?began.elapsed(), "pulled");
        Ok(id)
    }

    /// Shows in the store what we brought, and notes that it is kubelet's.
    pub(super) async fn remember(
        &self,
        before: &Snapshot,
        id: &ImageId,
        name: &ImageReference,
    ) -> Result<(), ImageError> {
        self.store.refresh_image(&name.to_string()).await?;
        // Of what was not known anything may have been there.
        let was_there = !before.has_images() || before.image(id.as_str()).is_some();
        self.pulled.note(id, name, was_there).await;
        Ok(())
    }

    async fn transfer(&self, request: &PullRequest) -> Result<(), ImageError> {
        let patience = self.settings.pull_progress_deadline;
        let mut volume = self.metrics.volume();
        let mut watch = Watch::new(patience, self.pulse.clone(), Instant::now());
        let stalled = |stall: Stall| ImageError::Stalled {
            reference: request.reference.clone(),
            silent: stall.silent,
            layer: stall.layer.map(Box::new),
        };
        let mut pull =
            until_stall(&mut watch, self.engine.pull_image(request)).await.map_err(stalled)??;
        while let Some(progress) = until_stall(&mut watch, pull.next()).await.map_err(stalled)? {
            let progress = progress?;
            trace!(image = %request.reference, layer = %progress.layer, status = %progress.status);
            volume.note(&progress);
            watch.note(&progress, Instant::now());
        }
        Ok(())
    }
}

/// Waits for the engine's next word as long as that is reasonable.
async fn until_stall<F: Future>(watch: &mut Watch, next: F) -> Result<F::Output, Stall> {
    let mut next = std::pin::pin!(next);
    loop {
        let Some(end) = watch.end() else { return Ok(next.await) };
        if let Ok(said) = timeout_at(end.into(), &mut next).await {
            return Ok(said);
        }
        if let Some(stall) = watch.overdue(Instant::now()) {
            return Err(stall);
        }
    }
}
