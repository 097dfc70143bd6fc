//! Writes and sweeps the files of our OCI runtime.

use std::collections::BTreeSet;

use tracing::warn;

use super::node::Node;
use crate::{
    error::{Failure, chain},
    model::{id::SandboxId, oci_edits::OciEdits, record::ContainerRecord, spec_edit::SpecEdit},
    translate::plan::oci_edits,
};

impl Node {
    /// Writes the edits of a container that is about to start, if it has any.
    pub(super) async fn write_edits(&self, record: &ContainerRecord) -> Result<(), Failure> {
        let wanted = self.wanted(record)?;
        let snapshot = self.store.snapshot();
        let engine = snapshot.described()?;
        let document = &record.document;
        let pod = snapshot.sandbox(document.sandbox.as_str());
        // Without its file, a container that was created with our runtime is refused by it.
        let Ok(runtime) = engine.below(pod.map_or("", |pod| &pod.document.spec.handler)) else {
            return Ok(());
        };
        let has_host_network = pod.is_some_and(|pod| pod.document.spec.namespaces.host_network);
        let pin = document.spec.users.map(|_| self.oci_runtime_files.user_pin(&document.sandbox));
        let limits = self.saved_changes.requested(record);
        let edits = oci_edits::container(document, &limits, engine, pin.as_deref(), &wanted);
        if edits.is_empty() && !document.is_adjustable {
            return Ok(());
        }
        let restore = edits.restore.map(|_| self.oci_runtime_files.restore(record.id.as_str()));
        let mut edits = OciEdits { runtime, restore, ..edits };
        if has_host_network && edits.users.is_some() {
            // The engine writes the path of the pause container's namespace, which is the host's. The pod's
            // root cannot join it.
            edits.edits.push(SpecEdit::remove(&["linux", "namespaces", "network"]));
        }
        self.oci_runtime_files.write(record.id.as_str(), edits, engine).await
    }

    fn wanted(&self, record: &ContainerRecord) -> Result<Vec<SpecEdit>, Failure> {
        match self.saved_changes.edits(&record.id) {
            Some(wanted) => Ok(wanted),
            None if record.document.is_adjustable => Err(Failure::unmet(format!(
                "the changes of NRI plugins for container {} are lost or in the format of an earlier \
                 dockbridge, so the container cannot start: remove it, and kubelet creates another one",
                record.id
            ))),
            None => Ok(Vec::new()),
        }
    }

    /// Removes the files of containers that are gone, except those in `keep`. Must be called after
    /// everything was inspected.
    pub async fn sweep_edits(&self, keep: &BTreeSet<SandboxId>) {
        let is_kept = |id: &String| keep.iter().any(|kept| kept.as_str() == id);
        for id in self.edited().await.into_iter().filter(|id| !is_kept(id)) {
            // The call that holds the lock will itself write or remove the file.
            let Some(_held) = self.locks.try_write(&id) else { continue };
            let now = self.store.snapshot();
            if now.container(&id).is_some_and(|it| it.process.is_running()) {
                // An earlier dockbridge ended right after the start.
                self.oci_runtime_files.remove_restore(&id).await;
            }
            if now.is_complete() && now.container(&id).is_none() && now.sandbox(&id).is_none() {
                self.oci_runtime_files.remove(&id).await;
            }
        }
    }

    /// The ids of the sandboxes that have such files. Some of these sandboxes may no longer exist.
    pub async fn edited_sandboxes(&self) -> Vec<SandboxId> {
        let ids = self.edited().await;
        ids.into_iter().filter_map(|id| SandboxId::try_from(id).ok()).collect()
    }

    async fn edited(&self) -> Vec<String> {
        let Some(engine) = self.store.snapshot().engine.clone() else { return Vec::new() };
        self.oci_runtime_files.ids(&engine).await.unwrap_or_else(|error| {
            warn!(error = chain(&error), "cannot list the files of dockbridge-runtime; retrying");
            Vec::new()
        })
    }
}
