//! What was changed of pods and containers after their create: limits, and what NRI plugins asked for.
//! A label cannot be changed, so it is saved in the state directory.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;

use crate::{
    checkpoint::{directory::Checkpoints, error::CheckpointError, record::ChangesSinceCreate},
    error::chain,
    model::{
        id::{ContainerId, SandboxId},
        record::{ContainerRecord, SandboxRecord},
        resources::{PodResources, Resources},
        spec_edit::SpecEdit,
    },
    store::handle::Store,
};

/// The changes of all pods and containers. Clones share them.
#[derive(Clone, Debug)]
pub struct SavedChanges {
    known: Arc<Mutex<ChangesSinceCreate>>,
    checkpoints: Checkpoints,
    /// One write at a time, each of the latest.
    saving: Arc<tokio::sync::Mutex<()>>,
}

impl SavedChanges {
    /// What earlier runs changed.
    pub async fn load(checkpoints: Checkpoints) -> Self {
        let known = Arc::new(Mutex::new(checkpoints.load_file().await));
        Self { known, checkpoints, saving: Arc::default() }
    }

    /// The limits of a container that were asked for last; none if they are as at its creation.
    pub(super) fn limits(&self, id: &ContainerId) -> Option<Resources> {
        self.known.lock().containers.get(id).cloned()
    }

    /// The limits that were asked for last: the engine knows some, we know others.
    pub fn requested(&self, record: &ContainerRecord) -> Resources {
        let (engine, created) = (&record.limits, &record.document.spec.resources);
        match self.limits(&record.id) {
            Some(changed) => changed.beside(engine),
            // The engine may have raised the score.
            None => Resources { oom_score_adj: engine.oom_score_adj, ..created.beside(engine) },
        }
    }

    /// The limits of a pod that kubelet sent last.
    pub fn pod_limits(&self, record: &SandboxRecord) -> PodResources {
        let (updated, spec) = (self.pod(&record.id), &record.document.spec);
        PodResources {
            overhead: updated.overhead.or_else(|| spec.overhead.clone()),
            resources: updated.resources.or_else(|| spec.resources.clone()),
        }
    }

    /// The last update of a pod; empty if there was none since its creation.
    pub(super) fn pod(&self, id: &SandboxId) -> PodResources {
        self.known.lock().pods.get(id).cloned().unwrap_or_default()
    }

    /// Saves the limits of a container.
    ///
    /// # Errors
    /// The disk refuses; then what was known before counts.
    pub(super) async fn put_limits(
        &self,
        id: &ContainerId,
        limits: &Resources,
    ) -> Result<(), CheckpointError> {
        let _saving = self.saving.lock().await;
        let before = self.known.lock().containers.insert(id.clone(), limits.clone());
        let saved = self.save().await;
        if saved.is_err() {
            let mut known = self.known.lock();
            match before {
                Some(before) => drop(known.containers.insert(id.clone(), before)),
                None => drop(known.containers.remove(id)),
            }
        }
        saved
    }

    /// What plugins wanted of a container; none if it was not saved.
    pub(super) fn edits(&self, id: &ContainerId) -> Option<Vec<SpecEdit>> {
        self.known.lock().edits.get(id).cloned()
    }

    /// Saves what plugins want of a new container.
    pub(super) async fn put_edits(
        &self,
        id: &ContainerId,
        wanted: Vec<SpecEdit>,
    ) -> Result<(), CheckpointError> {
        let _saving = self.saving.lock().await;
        self.known.lock().edits.insert(id.clone(), wanted);
        let saved = self.save().await;
        if saved.is_err() {
            self.known.lock().edits.remove(id);
        }
        saved
    }

    /// Records an update of a pod; fields that are not set stay.
    pub async fn put_pod_limits(
        &self,
        id: &SandboxId,
        newer: PodResources,
    ) -> Result<(), CheckpointError> {
        let _saving = self.saving.lock().await;
        let before = self.pod(id);
        let after = PodResources {
            overhead: newer.overhead.or_else(|| before.overhead.clone()),
            resources: newer.resources.or_else(|| before.resources.clone()),
        };
        if after == before {
            return Ok(());
        }
        self.known.lock().pods.insert(id.clone(), after);
        let saved = self.save().await;
        if saved.is_err() {
            self.known.lock().pods.insert(id.clone(), before);
        }
        saved
    }

    /// Removes the changes of pods and containers that are gone, once everything was inspected.
    pub async fn remove_gone(&self, store: &Store) {
        let _saving = self.saving.lock().await;
        // Read under the lock: it has everything whose changes were saved before.
        let now = store.snapshot();
        if !now.is_complete() {
            return;
        }
        let is_kept = |known: &ChangesSinceCreate| {
            let mut containers = known.containers.keys().chain(known.edits.keys());
            containers.all(|id| now.container(id.as_str()).is_some())
                && known.pods.keys().all(|id| now.sandbox(id.as_str()).is_some())
        };
        if is_kept(&self.known.lock()) {
            return;
        }
        {
            let mut known = self.known.lock();
            known.containers.retain(|id, _| now.container(id.as_str()).is_some());
            known.edits.retain(|id, _| now.container(id.as_str()).is_some());
            known.pods.retain(|id, _| now.sandbox(id.as_str()).is_some());
        }
        if let Err(error) = self.save().await {
            warn!(
                error = chain(&error),
                "cannot remove saved changes of removed containers; retrying"
            );
        }
    }

    async fn save(&self) -> Result<(), CheckpointError> {
        let known = self.known.lock().clone();
        self.checkpoints.save_file(&known).await
    }
}
