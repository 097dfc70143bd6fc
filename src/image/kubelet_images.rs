//! Which images belong to kubelet: images that dockbridge brought to Docker (by a pull, also for crictl, or by loading
//! the pause image), and that have no tags except those of such pulls and loads.
//!
//! The list of kubelet's images is in a file, so it survives restarts of dockbridge. With `--collect-images pulled`,
//! kubelet's garbage collection keeps the images that do not belong to kubelet, because an operator might have no copy
//! of a locally built image.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tracing::warn;

use crate::{
    checkpoint::{directory::Checkpoints, record::PulledImages},
    error::chain,
    model::{id::ImageId, record::ImageRecord, reference::ImageReference},
    store::{handle::Store, snapshot::Snapshot},
};

/// The list of images that were pulled for kubelet, shared by all clones of this value.
#[derive(Clone)]
pub struct KubeletImages {
    known: Arc<Mutex<PulledImages>>,
    checkpoints: Checkpoints,
    /// This lock is held during a write, so that writes run one after another, each with the latest list.
    saving: Arc<tokio::sync::Mutex<()>>,
}

impl KubeletImages {
    /// Reads the list that earlier dockbridge processes have stored.
    pub async fn load(checkpoints: Checkpoints) -> Self {
        let known = Arc::new(Mutex::new(checkpoints.load_file().await));
        Self { known, checkpoints, saving: Arc::default() }
    }

    /// Whether the image is on the list, and was pulled for kubelet under each of its tags.
    pub(super) fn contains(&self, image: &ImageRecord) -> bool {
        let known = self.known.lock();
        known.0.get(&image.id).is_some_and(|names| {
            let spelt = |tag: &String| ImageReference::parse(tag).map(|name| name.to_string());
            image.repo_tags.iter().all(|tag| spelt(tag).is_ok_and(|name| names.contains(&name)))
        })
    }

    /// Adds an image that was pulled for kubelet. If the image existed before the pull (`was_there`) and is
    /// not on the list, it counts as foreign and is not added.
    pub(super) async fn add(&self, id: &ImageId, name: &ImageReference, was_there: bool) {
        let name = name.to_string();
        let is_new = {
            let mut known = self.known.lock();
            let foreign = was_there && !known.0.contains_key(id);
            !foreign && known.0.entry(id.clone()).or_default().insert(name)
        };
        if is_new {
            self.save().await;
        }
    }

    /// The names under which the image was pulled for kubelet. `None` if the image is not on the list.
    pub(super) fn names(&self, id: &ImageId) -> Option<BTreeSet<String>> {
        self.known.lock().0.get(id).cloned()
    }

    /// Puts an image on the list again if it was taken off since [`Self::names`] returned `names`.
    pub(super) async fn restore(&self, id: ImageId, names: Option<BTreeSet<String>>) {
        let Some(names) = names else { return };
        self.known.lock().0.entry(id).or_insert(names);
        self.save().await;
    }

    /// Takes removed images off the list, because a foreign image with the same id may be pulled later.
    pub(super) async fn forget_removed(self, store: Store) {
        let gone = |shown: &Arc<Snapshot>| {
            let gone = |id: &&ImageId| shown.image(id.as_str()).is_none();
            let known = self.known.lock();
            let gone: Vec<ImageId> = known.0.keys().filter(gone).cloned().collect();
            (shown.is_complete() && !gone.is_empty()).then_some(gone)
        };
        while let Some(gone) = store.when(gone).await {
            self.known.lock().0.retain(|id, _| !gone.contains(id));
            self.save().await;
        }
    }

    async fn save(&self) {
        let _guard = self.saving.lock().await;
        let known = self.known.lock().clone();
        if let Err(error) = self.checkpoints.save_file(&known).await {
            warn!(
                error = chain(&error),
                "cannot save the list of images pulled for kubelet; if dockbridge restarts before a later save succeeds, the list is out of date"
            );
        }
    }
}

#[cfg(test)]
mod tests;
