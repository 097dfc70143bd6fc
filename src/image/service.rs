//! The calls about images, for example pulls and removals, and the state that these calls share.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    kubelet_images::KubeletImages, metrics::ImageMetrics, stall::LastProgress, usage::UsageMonitor,
};
use crate::{
    concurrency::single_flight::SingleFlight,
    config::live::LiveSettings,
    engine::client::Engine,
    error::Failure,
    model::{
        id::ImageId,
        image::{FilesystemUsage, PullRequest},
        pinned_images::CollectImages,
        record::ImageRecord,
    },
    store::handle::Store,
};

/// The images of this node. All clones of `Images` share their state.
#[derive(Clone)]
pub struct Images {
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) live: LiveSettings,
    pub(super) last_progress: LastProgress,
    pub(super) pulls: SingleFlight<PullRequest, Result<ImageId, Failure>>,
    pub(super) removals: SingleFlight<ImageId, Result<(), Failure>>,
    pub(super) kubelet_images: KubeletImages,
    pub(super) loads: SingleFlight<(), Result<ImageId, Failure>>,
    /// The id of the pause image, as it was last known.
    pub(super) pause: Arc<Mutex<Option<ImageId>>>,
    usage: UsageMonitor,
    pub metrics: ImageMetrics,
    _background: Arc<[AbortOnDropHandle<()>; 2]>,
}

impl Images {
    /// Starts tasks that measure the image store and take removed images off `kubelet_images`. These tasks end when the
    /// last clone of the new value is dropped. Must be called inside a tokio runtime. At shutdown, `tracker` waits for
    /// removals of images, and for a load or pull of the pause image.
    pub fn new(
        engine: Engine,
        store: Store,
        live: LiveSettings,
        kubelet_images: KubeletImages,
        tracker: &TaskTracker,
    ) -> Self {
        let usage = UsageMonitor::default();
        let measuring = tokio::spawn(usage.clone().run(engine.clone(), store.clone()));
        let forgetting = tokio::spawn(kubelet_images.clone().forget_removed(store.clone()));
        Self {
            engine,
            store,
            live,
            last_progress: LastProgress::default(),
            pulls: SingleFlight::cancelling(),
            removals: SingleFlight::new(tracker.clone()),
            loads: SingleFlight::new(tracker.clone()),
            pause: Arc::default(),
            usage,
            metrics: ImageMetrics::default(),
            kubelet_images,
            _background: Arc::new([measuring, forgetting].map(AbortOnDropHandle::new)),
        }
    }

    /// Pulls an image and returns its current id.
    ///
    /// Equal calls at the same time share one pull, which is cancelled when all of these calls are dropped. Fails
    /// with the error of the registry or the engine, or if the pull makes no progress.
    pub async fn pull(&self, request: PullRequest) -> Result<ImageId, Failure> {
        let (images, key) = (self.clone(), request.clone());
        let pull = async move { images.pull_now(&request).await };
        self.pulls.run(key, pull).await?
    }

    /// Removes the image that has this name, with all its names.
    ///
    /// Also succeeds if no image has the name. After success, neither the engine's list nor the store has an image
    /// of this name. A removal that has begun runs to its end, even if its caller drops the future. Fails
    /// with `FailedPrecondition` if a container uses the image.
    pub async fn remove(&self, name: &str) -> Result<(), Failure> {
        let Some(id) = self.resolve(name).await? else {
            // The store may still have the record of an image that the engine no longer has.
            if let Some(image) = self.store.snapshot().image(name).cloned() {
                self.store.refresh_image(image.id.as_str()).await?;
            }
            return Ok(());
        };
        let (images, key) = (self.clone(), id.clone());
        let removal = async move { images.remove_now(&id).await };
        self.removals.run(key, removal).await?
    }

    /// The id of the pause image. Loads or pulls the pause image if the engine does not have it.
    pub async fn pause(&self) -> Result<ImageId, Failure> {
        if let Some(id) = self.cached_pause() {
            return Ok(id);
        }
        let images = self.clone();
        self.loads.run((), async move { images.ensure_pause().await }).await?
    }

    /// Whether kubelet's garbage collection must keep the image: it is the pause image (under any name), the operator
    /// has pinned it, a container that kubelet does not know uses it (the engine would refuse its removal), a container
    /// mounts it (kubelet's lists do not show that), or it is foreign and the setting protects foreign images.
    pub fn is_pinned(&self, record: &ImageRecord) -> bool {
        let live = self.live.current();
        self.cached_pause().is_some_and(|pause| pause == record.id)
            || live.pins.matches(record)
            || self.store.snapshot().is_used_by_hidden(&record.id)
            || self.store.snapshot().mounting(&record.id).next().is_some()
            || (live.collect == CollectImages::Pulled && !self.kubelet_images.contains(record))
    }

    /// The space that images take, from the last measurement. Does not call the engine. Waits up to two seconds for the
    /// first measurement; if it takes longer, returns an estimate. Fails if the engine has not answered yet.
    pub async fn filesystem(&self) -> Result<FilesystemUsage, Failure> {
        self.usage.read(&self.store).await
    }
}
