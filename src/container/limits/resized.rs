//! Which limits were changed after what they limit was made. A label cannot be changed, so this is
//! kept beside it, over restarts too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::{
    checkpoint::{directory::Checkpoints, error::CheckpointError, record::Resized},
    error::chain,
    model::{
        adjustment::Adjustment,
        id::{ContainerId, SandboxId},
        resources::{PodResources, Resources},
    },
    store::handle::Store,
};

/// The changed limits. Clones share them.
#[derive(Clone, Debug)]
pub struct ResizedLimits {
    known: Arc<Mutex<Resized>>,
    checkpoints: Checkpoints,
    /// One write at a time, each of the latest.
    saving: Arc<tokio::sync::Mutex<()>>,
}

impl ResizedLimits {
    /// What earlier runs changed.
    pub async fn load(checkpoints: Checkpoints) -> Self {
        let known = Arc::new(Mutex::new(checkpoints.load_resized().await));
        Self { known, checkpoints, saving: Arc::default() }
    }

    /// The limits of a container that were asked for last; none if they are as at its creation.
    pub(in crate::container) fn container(&self, id: &ContainerId) -> Option<Resources> {
        self.known().containers.get(id).cloned()
    }

    /// The last update of a pod; empty if there was none since its creation.
    pub fn pod(&self, id: &SandboxId) -> PodResources {
        self.known().pods.get(id).cloned().unwrap_or_default()
    }

    /// Remembers the limits of a container.
    ///
    /// # Errors
    /// The disk refuses; then what was known before counts.
    pub(in crate::container) async fn put_container(
        &self,
        id: &ContainerId,
        limits: &Resources,
    ) -> Result<(), CheckpointError> {
        let _turn = self.saving.lock().await;
        let before = self.known().containers.insert(id.clone(), limits.clone());
        let saved = self.save().await;
        if saved.is_err() {
            let mut known = self.known();
            match before {
                Some(before) => drop(known.containers.insert(id.clone(), before)),
                None => drop(known.containers.remove(id)),
            }
        }
        saved
    }

    /// What plugins wanted of a container; none where it was not kept.
    pub(in crate::container) fn adjustment(&self, id: &ContainerId) -> Option<Adjustment> {
        self.known().adjustments.get(id).cloned()
    }

    /// Keeps what plugins want of a new container.
    ///
    /// # Errors
    /// The disk refuses.
    pub(in crate::container) async fn put_adjustment(
        &self,
        id: &ContainerId,
        wanted: Adjustment,
    ) -> Result<(), CheckpointError> {
        let _turn = self.saving.lock().await;
        self.known().adjustments.insert(id.clone(), wanted);
        let saved = self.save().await;
        if saved.is_err() {
            self.known().adjustments.remove(id);
        }
        saved
    }

    /// Records an update of a pod; fields that are not set stay.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn put_pod(
        &self,
        id: &SandboxId,
        newer: PodResources,
    ) -> Result<(), CheckpointError> {
        let _turn = self.saving.lock().await;
        let before = self.pod(id);
        let after = PodResources {
            overhead: newer.overhead.or_else(|| before.overhead.clone()),
            resources: newer.resources.or_else(|| before.resources.clone()),
        };
        if after == before {
            return Ok(());
        }
        self.known().pods.insert(id.clone(), after);
        let saved = self.save().await;
        if saved.is_err() {
            self.known().pods.insert(id.clone(), before);
        }
        saved
    }

    /// Removes entries of containers that are gone, once everything was inspected.
    pub async fn keep(&self, store: &Store) {
        let _turn = self.saving.lock().await;
        // Not older than the turn: what was changed before it is in there.
        let now = store.snapshot();
        if !now.is_complete() {
            return;
        }
        let is_kept = |known: &Resized| {
            let mut containers = known.containers.keys().chain(known.adjustments.keys());
            containers.all(|id| now.container(id.as_str()).is_some())
                && known.pods.keys().all(|id| now.sandbox(id.as_str()).is_some())
        };
        if is_kept(&self.known()) {
            return;
        }
        {
            let mut known = self.known();
            known.containers.retain(|id, _| now.container(id.as_str()).is_some());
            known.adjustments.retain(|id, _| now.container(id.as_str()).is_some());
            known.pods.retain(|id, _| now.sandbox(id.as_str()).is_some());
        }
        if let Err(error) = self.save().await {
            warn!(error = chain(&error), "cannot remove saved limits of removed containers");
        }
    }

    async fn save(&self) -> Result<(), CheckpointError> {
        let known = self.known().clone();
        self.checkpoints.save_resized(&known).await
    }

    fn known(&self) -> MutexGuard<'_, Resized> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
