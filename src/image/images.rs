//! The handle to the image verbs.

use std::sync::{Arc, Mutex};

use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{
    error::ImageError, joined::Joined, metrics::ImageMetrics, pulled::Pulled,
    settings::ImageSettings, stall::Pulse, usage::Gauge,
};
use crate::{
    concurrency::single_flight::SingleFlight,
    engine::client::Engine,
    model::{
        id::ImageId,
        image::{FilesystemUsage, PullRequest},
        pinned_images::CollectImages,
        record::ImageRecord,
    },
    store::handle::Store,
};

/// The image verbs. Clones share everything.
#[derive(Clone)]
pub struct Images {
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) settings: Arc<ImageSettings>,
    pub(super) pulse: Pulse,
    pub(super) pulls: Joined<PullRequest, Result<ImageId, ImageError>>,
    pub(super) removals: SingleFlight<ImageId, Result<(), ImageError>>,
    pub(super) pulled: Pulled,
    pub(super) loads: SingleFlight<(), Result<ImageId, ImageError>>,
    /// The pause image as it was last seen.
    pub(super) pause: Arc<Mutex<Option<ImageId>>>,
    gauge: Gauge,
    pub(super) metrics: ImageMetrics,
    _background: Arc<[AbortOnDropHandle<()>; 2]>,
}

impl Images {
    /// Starts measuring the image store and following the images `pulled` for kubelet in the
    /// background, for as long as a clone lives. Needs a tokio runtime.
    /// `tracker` waits for removals and loads at the end; a pull belongs to its callers.
    pub fn new(
        engine: Engine,
        store: Store,
        settings: ImageSettings,
        pulled: Pulled,
        tracker: &TaskTracker,
    ) -> Self {
        let gauge = Gauge::default();
        let measuring = tokio::spawn(gauge.clone().keep(engine.clone(), store.clone()));
        let following = tokio::spawn(pulled.clone().follow(store.clone()));
        Self {
            engine,
            store,
            settings: Arc::new(settings),
            pulse: Pulse::default(),
            pulls: Joined::default(),
            removals: SingleFlight::new(tracker.clone()),
            loads: SingleFlight::new(tracker.clone()),
            pause: Arc::default(),
            gauge,
            metrics: ImageMetrics::default(),
            pulled,
            _background: Arc::new([measuring, following].map(AbortOnDropHandle::new)),
        }
    }

    /// What is counted of pulls.
    pub const fn metrics(&self) -> &ImageMetrics {
        &self.metrics
    }

    /// Pulls an image and answers with the id it has now.
    ///
    /// Equal calls share one transfer. Who drops the future leaves the transfer to the others;
    /// it is cancelled when nobody is left.
    ///
    /// # Errors
    /// Whatever the registry or the engine says, and [`ImageError::Stalled`].
    pub async fn pull(&self, request: PullRequest) -> Result<ImageId, ImageError> {
        let (images, key) = (self.clone(), request.clone());
        let pull = async move { images.pull_now(&request).await };
        self.pulls.run(key, pull).await.unwrap_or(Err(ImageError::Lost { verb: "pull" }))
    }

    /// Removes an image under whatever name it is given, with all its names.
    ///
    /// An image that does not exist is removed already. On success neither the engine nor the
    /// store knows an image by this name any more; a dropped call still runs to its end.
    ///
    /// # Errors
    /// A conflict when a container uses the image; whatever else the engine says.
    pub async fn remove(&self, name: &str) -> Result<(), ImageError> {
        let Some(id) = self.resolve(name).await? else {
            return self.show_missing(name).await;
        };
        let (images, key) = (self.clone(), id.clone());
        let removal = async move { images.remove_now(&id).await };
        let answer = self.removals.run(key, removal).await;
        answer.map_err(|_| ImageError::Lost { verb: "removal" })?
    }

    /// The image pods' pause containers are made of; brought to the engine when it is missing.
    ///
    /// # Errors
    /// Whatever loading or pulling it says.
    pub async fn pause(&self) -> Result<ImageId, ImageError> {
        if let Some(id) = self.known_pause() {
            return Ok(id);
        }
        let images = self.clone();
        let answer = self.loads.run((), async move { images.provide_pause().await }).await;
        answer.map_err(|_| ImageError::Lost { verb: "loading of the pause image" })?
    }

    /// Whether kubelet must leave the image alone: it is the pause, however it is named; the
    /// operator wants it kept; a container that kubelet does not know was made of it, so that
    /// its removal would be refused for ever; it is mounted into a container, which kubelet's
    /// lists do not show; or it is not kubelet's own, and that counts.
    pub fn is_pinned(&self, record: &ImageRecord) -> bool {
        self.known_pause().is_some_and(|pause| pause == record.id)
            || self.settings.pins.matches(record)
            || self.store.snapshot().is_used_by_hidden(&record.id)
            || self.store.snapshot().mounting(&record.id).next().is_some()
            || (self.settings.collect == CollectImages::Pulled && !self.pulled.owns(record))
    }

    /// The space images take, as last measured; the engine is not asked. Only the very first
    /// answer may take a while, up to two seconds.
    ///
    /// # Errors
    /// [`ImageError::NoFilesystem`] as long as the engine never answered.
    pub async fn filesystem(&self) -> Result<FilesystemUsage, ImageError> {
        self.gauge.read(&self.store).await
    }
}
