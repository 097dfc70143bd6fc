//! Changes of pods and containers after their creation: limits, and edits that NRI plugins want. dockbridge saves these
//! changes in the state directory. The labels have the original request, and Docker cannot change labels.

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

/// The saved changes of all pods and containers, shared by all clones of this value.
#[derive(Clone, Debug)]
pub struct SavedChanges {
    known: Arc<Mutex<ChangesSinceCreate>>,
    checkpoints: Checkpoints,
    /// Held during a write, so that writes run one after another.
    saving: Arc<tokio::sync::Mutex<()>>,
}

impl SavedChanges {
    /// Loads the changes that earlier dockbridge processes have saved.
    pub async fn load(checkpoints: Checkpoints) -> Self {
        let known = Arc::new(Mutex::new(checkpoints.load_file().await));
        Self { known, checkpoints, saving: Arc::default() }
    }

    /// The limits that dockbridge saved last for a container. None without saved limits.
    pub(super) fn limits(&self, id: &ContainerId) -> Option<Resources> {
        self.known.lock().containers.get(id).cloned()
    }

    /// The limits that a container should have. Docker stores some of them, dockbridge the others.
    pub fn requested(&self, record: &ContainerRecord) -> Resources {
        let (engine, spec) = (&record.limits, &record.document.spec.resources);
        match self.limits(&record.id) {
            Some(changed) => changed.with_observed(engine),
            // Uses the engine's `oom_score_adj`, which dockbridge may have raised in the create request.
            None => Resources { oom_score_adj: engine.oom_score_adj, ..spec.with_observed(engine) },
        }
    }

    /// The limits of a pod: those that updates have set, otherwise those from the pod's creation.
    pub fn pod_limits(&self, record: &SandboxRecord) -> PodResources {
        let (updated, spec) = (self.pod(&record.id), &record.document.spec);
        PodResources {
            overhead: updated.overhead.or_else(|| spec.overhead.clone()),
            resources: updated.resources.or_else(|| spec.resources.clone()),
        }
    }

    /// The limits that updates of a pod have set; empty if no update has set limits.
    pub(super) fn pod(&self, id: &SandboxId) -> PodResources {
        self.known.lock().pods.get(id).cloned().unwrap_or_default()
    }

    pub(super) async fn put_limits(
        &self,
        id: &ContainerId,
        limits: &Resources,
    ) -> Result<(), HostError> {
        self.change(|known| drop(known.containers.insert(id.clone(), limits.clone()))).await
    }

    /// The edits that NRI plugins want of a container; None if none were saved.
    pub(super) fn edits(&self, id: &ContainerId) -> Option<Vec<SpecEdit>> {
        self.known.lock().edits.get(id).cloned()
    }

    /// Saves the edits that NRI plugins want of a new container.
    pub(super) async fn put_edits(
        &self,
        id: &ContainerId,
        wanted: Vec<SpecEdit>,
    ) -> Result<(), HostError> {
        self.change(|known| drop(known.edits.insert(id.clone(), wanted))).await
    }

    /// Saves an update of a pod's limits. Fields that are not set in `newer` keep their value.
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

    /// Removes the saved changes of removed pods and containers. Does nothing while the store is not complete.
    pub async fn remove_gone(&self, store: &Store) {
        let removed = self.change(|known| {
            // Changes are saved only for pods and containers that a snapshot has shown. If a later, complete snapshot
            // lacks a pod or container, it was removed, or it is stopped and Docker hides it.
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
                "cannot remove the saved limits and edits of removed pods and containers; retrying later"
            );
        }
    }

    /// Makes and saves a change. If saving fails, restores the previous state in memory.
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
