//! Asks NRI plugins about a new container, and applies their adjustments and later updates.

use std::sync::Arc;

use futures_util::{FutureExt as _, TryFutureExt as _, future::BoxFuture};

use super::service::Containers;
use crate::{
    error::{Failure, chain},
    model::{
        id::ContainerId,
        record::{ContainerRecord, SandboxRecord},
        resources::{PodResources, Resources},
    },
    nri::{creation::Creation, service::NriHooks},
    translate::plan::adjustment::check,
};

impl NriHooks for Containers {
    fn update(&self, id: String, limits: Resources) -> BoxFuture<'_, Result<(), String>> {
        let changed = async move {
            let container = self.node.container(&id).await?;
            self.limits.change(&container.id, limits).await
        };
        changed.map_err(|error| chain(&error)).boxed()
    }

    fn kill(&self, id: String) -> BoxFuture<'_, Result<(), String>> {
        // Plugins are notified later, when dockbridge sees the container's end: at the time of the kill, the
        // plugin that requests it may itself be busy with a call.
        async move { self.kill(&id).await.map_err(|error| chain(&error)) }.boxed()
    }

    fn limits(&self, container: &ContainerRecord) -> Resources {
        self.node.saved_changes.requested(container)
    }

    fn pod_limits(&self, pod: &SandboxRecord) -> PodResources {
        self.node.saved_changes.pod_limits(pod)
    }
}

impl Containers {
    /// Asks NRI plugins about a new container. After a refusal or another failure, removes the container.
    pub(super) async fn ask_plugins(
        &self,
        creation: Option<Creation>,
        id: &ContainerId,
    ) -> Result<(), Failure> {
        let Some(record) = self.node.store.snapshot().container(id.as_str()).map(Arc::clone) else {
            return Ok(());
        };
        let Err(error) = self.adjust(creation, &record).await else { return Ok(()) };
        self.node.nri.remove_container(id.as_str()).await;
        self.discard(id.as_str()).await;
        Err(error)
    }

    async fn adjust(
        &self,
        creation: Option<Creation>,
        record: &Arc<ContainerRecord>,
    ) -> Result<(), Failure> {
        let asked = self.node.nri.create_container(creation.as_ref(), record).await?;
        let (document, was_asked) = (&record.document, asked.is_some());
        if let Some(wanted) = &asked {
            let now = self.node.store.snapshot();
            let pod = now.sandbox(document.sandbox.as_str());
            let handler = pod.map_or("", |pod| pod.document.spec.handler.as_str());
            check(wanted, now.described()?, handler, document.is_adjustable)?;
        }
        let wanted = self.node.with_devices(asked.unwrap_or_default()).await?;
        let limits = wanted.resources.clone();
        if self.awaits_adjustment(record) {
            let saved = self.node.saved_changes.put_edits(&record.id, wanted.edits).await;
            let text = "cannot save the NRI adjustment of the container";
            saved.map_err(|cause| Failure::from(cause).within(text))?;
        }
        if limits != Resources::default() {
            self.limits.change(&record.id, limits).await?;
        }
        // Dropping `creation` makes the container visible in answers.
        drop(creation);
        if was_asked {
            let now = self.node.store.snapshot();
            let latest = now.container(record.id.as_str()).unwrap_or(record);
            self.node.nri.container_created(latest).await;
        }
        Ok(())
    }

    /// Whether NRI plugins may adjust the container but no answer of theirs was saved.
    pub(super) fn awaits_adjustment(&self, record: &ContainerRecord) -> bool {
        record.document.is_adjustable && self.node.saved_changes.edits(&record.id).is_none()
    }
}
