//! Pulls an image: first the transfer with its stall detector, then the inspect of the image.

use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, trace};

use super::{
    service::Images,
    stall::{Stall, StallDetector},
};
use crate::{
    engine::error::EngineError,
    error::{Failure, Kind},
    model::{engine::ApiVersion, id::ImageId, image::PullRequest, reference::ImageReference},
    store::snapshot::Snapshot,
};

impl Images {
    /// Pulls the image, and returns when the store has the image.
    pub(super) async fn pull_now(&self, request: &PullRequest) -> Result<ImageId, Failure> {
        let began = Instant::now();
        info!(image = %request.reference, "pulling image");
        let before = self.store.snapshot();
        let named = before.image(&request.reference.to_string()).map(|image| image.id.clone());
        let named = named.map(|old| (self.kubelet_images.names(&old), old));
        let transfer = self.metrics.begin(&request.reference);
        let transferred = self.transfer(request).await;
        transfer.ended(transferred.as_ref().err().map(Failure::kind));
        transferred?;
        // The pulled image is found by its reference and not by a digest in the progress messages: the digest
        // of a multi-platform index differs from the digests of its parts.
        let id = self.inspect_pulled(&request.reference.to_string()).await?;
        self.record_pulled(&before, &id, &request.reference).await?;
        if let Some((names, old)) = named.filter(|(_, old)| *old != id) {
            // While the name moves to the new image, containerd's store lacks the old image for a moment. If dockbridge
            // inspected the old image in that moment, no event corrects the answer that the old image does not exist.
            drop(self.store.refresh_image(old.as_str()).await);
            if self.store.snapshot().image(old.as_str()).is_some() {
                self.kubelet_images.restore(old, names).await;
            }
        }
        info!(image = %request.reference, %id, took = ?began.elapsed(), "image pulled");
        Ok(id)
    }

    /// Returns the id of a pulled image. Removes the image if the answer to its inspect is too large: the pull
    /// then fails, and images of such failed pulls could fill the disk.
    async fn inspect_pulled(&self, name: &str) -> Result<ImageId, Failure> {
        let inspected = self.engine.inspect_image(name).await;
        if matches!(inspected, Err(EngineError::TooLarge { .. })) {
            let removed = self.remove_name(name).await;
            debug!(
                image = name,
                ?removed,
                "Docker's answer about a pulled image is too large; tried to remove the image"
            );
        }
        Ok(inspected?.id)
    }

    /// Updates a pulled or loaded image in the store. Adds the image to kubelet's images, unless the image existed
    /// before and was not one of them.
    pub(super) async fn record_pulled(
        &self,
        before: &Snapshot,
        id: &ImageId,
        name: &ImageReference,
    ) -> Result<(), Failure> {
        self.store.refresh_image(&name.to_string()).await?;
        // Before the first list of images, dockbridge must assume that the image existed before the pull.
        let was_there = !before.has_images() || before.image(id.as_str()).is_some();
        self.kubelet_images.add(id, name, was_there).await;
        Ok(())
    }

    async fn transfer(&self, request: &PullRequest) -> Result<(), Failure> {
        let deadline = self.live.current().pull_progress_deadline;
        let engine = self.store.snapshot().engine.clone();
        let mut detector = StallDetector::new(deadline, self.last_progress.clone(), Instant::now());
        detector.waits_unseen = engine.is_some_and(|engine| {
            engine.containerd_store && engine.api >= ApiVersion::LIMITS_DOWNLOADS
        });
        let stalled = |Stall { silent, layer }: Stall| {
            let named_none = || "Docker has reported no layer yet".to_owned();
            let layer = layer.unwrap_or_else(named_none);
            let text =
                format!("pull of {} made no progress for {silent:?}: {layer}", request.reference);
            Failure::new(Kind::DeadlineExceeded, text)
        };
        let mut pull =
            until_stall(&detector, self.engine.pull_image(request)).await.map_err(stalled)??;
        while let Some(progress) = until_stall(&detector, pull.next()).await.map_err(stalled)? {
            let progress = progress?;
            trace!(image = %request.reference, layer = %progress.layer, status = %progress.status);
            detector.record(&progress, Instant::now());
        }
        Ok(())
    }
}

async fn until_stall<F: Future>(detector: &StallDetector, next: F) -> Result<F::Output, Stall> {
    let mut next = std::pin::pin!(next);
    loop {
        let Some(end) = detector.deadline() else { return Ok(next.await) };
        if let Ok(message) = timeout_at(end, &mut next).await {
            return Ok(message);
        }
        if let Some(stall) = detector.stall(Instant::now()) {
            return Err(stall);
        }
    }
}
