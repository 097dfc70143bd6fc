//! Which images are kubelet's own: those it had pulled, and that nobody else gave a name since.
//!
//! Remembered over restarts. What is forgotten, or was never known, counts as somebody else's: it
//! can be deleted by hand, but what was deleted may be lost.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tracing::warn;

use crate::{
    checkpoint::{directory::Checkpoints, record::PulledImages},
    error::chain,
    model::{id::ImageId, record::ImageRecord, reference::ImageReference},
    store::handle::Store,
};

/// The images pulled for kubelet. Clones share it.
#[derive(Clone)]
pub struct Pulled {
    known: Arc<Mutex<PulledImages>>,
    checkpoints: Checkpoints,
    /// One write at a time, each of the latest.
    saving: Arc<tokio::sync::Mutex<()>>,
}

impl Pulled {
    /// What earlier runs pulled.
    pub async fn load(checkpoints: Checkpoints) -> Self {
        let known = Arc::new(Mutex::new(checkpoints.load_pulled().await));
        Self { known, checkpoints, saving: Arc::default() }
    }

    /// Whether kubelet had the image pulled, under every name it bears.
    pub(super) fn owns(&self, image: &ImageRecord) -> bool {
        let known = self.known();
        known.0.get(&image.id).is_some_and(|names| {
            let spelt = |tag: &String| ImageReference::parse(tag).map(|name| name.to_string());
            image.repo_tags.iter().all(|tag| spelt(tag).is_ok_and(|name| names.contains(&name)))
        })
    }

    /// An image was pulled for kubelet. `was_there` before it under this id: then it is
    /// somebody else's, unless it is known to be kubelet's.
    pub(super) async fn note(&self, id: &ImageId, name: &ImageReference, was_there: bool) {
        let name = name.to_string();
        let is_new = {
            let mut known = self.known();
            let foreign = was_there && !known.0.contains_key(id);
            !foreign && known.0.entry(id.clone()).or_default().insert(name)
        };
        if is_new {
            self.save().await;
        }
    }

    /// Forgets what is gone, for as long as it is polled: under the same id it may come back as
    /// somebody else's.
    pub(super) async fn follow(self, store: Store) {
        loop {
            let gone = store.wait(RECHECK, |shown| {
                let gone = |id: &&ImageId| shown.image(id.as_str()).is_none();
                let known = self.known();
                let gone: Vec<ImageId> = known.0.keys().filter(gone).cloned().collect();
                (shown.is_complete() && !gone.is_empty()).then_some(gone)
            });
            match gone.await {
                Some(gone) => {
                    self.known().0.retain(|id, _| !gone.contains(id));
                    self.save().await;
                }
                // A closed store answers at once.
                None => tokio::time::sleep(REST).await,
            }
        }
    }

    async fn save(&self) {
        let _turn = self.saving.lock().await;
        let known = self.known().clone();
        if let Err(error) = self.checkpoints.save_pulled(&known).await {
            warn!(error = chain(&error), "cannot save the list of images pulled for kubelet");
        }
    }

    fn known(&self) -> MutexGuard<'_, PulledImages> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store is waited for in turns of this length.
const RECHECK: Duration = Duration::from_secs(3600);
/// Between two turns.
const REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
