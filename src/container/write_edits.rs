//! Writes the files for dockbridge's OCI runtime, and removes the files of pods and containers that no longer exist.

use std::collections::BTreeSet;

use tracing::warn;

use super::node::Node;
use crate::{
    error::{Failure, chain},
    model::{id::SandboxId, oci_edits::OciEdits, record::ContainerRecord, spec_edit::SpecEdit},
    translate::plan::oci_edits,
};

impl Node {
    /// Writes the edits of a container that is about to start, if the container has edits or NRI plugins were able to
    /// change it.
    pub(super) async fn write_edits(&self, record: &ContainerRecord) -> Result<(), Failure> {
        let plugin_edits = self.plugin_edits(record)?;
        let snapshot = self.store.snapshot();
        let engine = snapshot.described()?;
        let document = &record.document;
        let pod = snapshot.sandbox(document.sandbox.as_str());
        // If the pod cannot use dockbridge's OCI runtime now, no file is written. A container that was created with
        // edits for this runtime then fails to start.
        let Ok(runtime) = engine.below(pod.map_or("", |pod| &pod.document.spec.handler)) else {
            return Ok(());
        };
        let has_host_network = pod.is_some_and(|pod| pod.document.spec.namespaces.host_network);
        let pin = document.spec.users.map(|_| self.oci_runtime_files.user_pin(&document.sandbox));
        let limits = self.saved_changes.requested(record);
        let edits = oci_edits::container(document, &limits, engine, pin.as_deref(), &plugin_edits);
        if edits.is_empty() && !document.is_adjustable {
            return Ok(());
        }
        let restore = edits.restore.map(|_| self.oci_runtime_files.restore(record.id.as_str()));
        let mut edits = OciEdits { runtime, restore, ..edits };
        if has_host_network && edits.users.is_some() {
            // The engine adds the path of the pause container's network namespace to `config.json`. If the pod
            // has the host's network, this is the host's namespace, which root of the pod's user namespace cannot join.
            edits.edits.push(SpecEdit::remove(&["linux", "namespaces", "network"]));
        }
        self.oci_runtime_files.write(record.id.as_str(), edits, engine).await
    }

    fn plugin_edits(&self, record: &ContainerRecord) -> Result<Vec<SpecEdit>, Failure> {
        match self.saved_changes.edits(&record.id) {
            Some(plugin_edits) => Ok(plugin_edits),
            None if record.document.is_adjustable => Err(Failure::unmet(format!(
                "the changes of NRI plugins for container {} are lost or in the format of an earlier \
                 dockbridge, so the container cannot start: remove it, and kubelet creates another one",
                record.id
            ))),
            None => Ok(Vec::new()),
        }
    }

    /// If the store is complete, removes the files of pods and containers that no longer exist, except those of the
    /// pods in `keep`. Also removes unpacked container checkpoints of running containers.
    pub async fn sweep_edits(&self, keep: &BTreeSet<SandboxId>) {
        let is_kept = |id: &String| keep.iter().any(|kept| kept.as_str() == id);
        for id in self.ids_of_files().await.into_iter().filter(|id| !is_kept(id)) {
            // Skips a locked pod or container until the next sweep, because the call that has the lock may write or
            // remove the files.
            let Some(_held) = self.locks.try_write(&id) else { continue };
            let now = self.store.snapshot();
            if now.runs(&id) {
                // If an unpacked container checkpoint is left, the start's result was unknown, the removal failed, or
                // dockbridge ended first.
                self.oci_runtime_files.remove_restore(&id).await;
            }
            if now.is_complete() && now.container(&id).is_none() && now.sandbox(&id).is_none() {
                self.oci_runtime_files.remove(&id).await;
            }
        }
    }

    /// The ids of pods and containers, even removed ones, that have files for dockbridge's OCI runtime.
    pub async fn ids_with_files(&self) -> Vec<SandboxId> {
        let ids = self.ids_of_files().await;
        ids.into_iter().filter_map(|id| SandboxId::try_from(id).ok()).collect()
    }

    async fn ids_of_files(&self) -> Vec<String> {
        let Some(engine) = self.store.snapshot().engine.clone() else { return Vec::new() };
        self.oci_runtime_files.ids(&engine).await.unwrap_or_else(|error| {
            warn!(
                error = chain(&error),
                "cannot list the files of pods and containers for dockbridge-runtime; \
                 retrying later"
            );
            Vec::new()
        })
    }
}
