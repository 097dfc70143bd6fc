//! What was changed of pods and containers after their create: limits, and what NRI plugins asked for.
//! A label cannot be changed, so it is saved in the state directory.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;

use crate::{
    checkpoint::{directory::Checkpoints, record::ChangesSinceCreate},
    error::chain,
    host::error::HostError,
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

    /// Saves the limits of a container. If they cannot be saved, the previous limits stay in effect.
    pub(super) async fn put_limits(
        &self,
        id: &ContainerId,
        limits: &Resources,
    ) -> Result<(), HostError> {
        self.change(|known| drop(known.containers.insert(id.clone(), limits.clone()))).await
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
    ) -> Result<(), HostError> {
        self.change(|known| drop(known.edits.insert(id.clone(), wanted))).await
    }

    /// Records an update of a pod; fields that are not set stay.
    pub async fn put_pod_limits(
        &self,
        id: &SandboxId,
        newer: PodResources,
    ) -> Result<(), HostError> {
        self.change(|known| {
            let mut pod = known.pods.get(id).cloned().unwrap_or_default();
            pod.overhead = newer.overhead.or(pod.overhead);
            pod.resources = newer.resources.or(pod.resources);
            if pod != PodResources::default() {
                known.pods.insert(id.clone(), pod);
            }
        })
        .await
    }

    /// Removes the changes of pods and containers that are gone, once everything was inspected.
    pub async fn remove_gone(&self, store: &Store) {
        let removed = self.change(|known| {
            // This snapshot has everything whose changes were saved before.
            let now = store.snapshot();
            if now.is_complete() {
                known.containers.retain(|id, _| now.container(id.as_str()).is_some());
                known.edits.retain(|id, _| now.container(id.as_str()).is_some());
                known.pods.retain(|id, _| now.sandbox(id.as_str()).is_some());
            }
        });
        if let Err(error) = removed.await {
            warn!(
                error = chain(&error),
                "cannot remove saved changes of removed containers; retrying"
            );
        }
    }

    /// Makes and saves a change. If it cannot be saved, what was known before counts.
    async fn change(&self, edit: impl FnOnce(&mut ChangesSinceCreate)) -> Result<(), HostError> {
        let _saving = self.saving.lock().await;
        let before = self.known.lock().clone();
        let mut after = before.clone();
        edit(&mut after);
        if after == before {
            return Ok(());
        }
        self.known.lock().clone_from(&after);
        let saved = self.checkpoints.save_file(&after).await;
        if saved.is_err() {
            *self.known.lock() = before;
        }
        saved
    }
}
