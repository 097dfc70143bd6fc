//! Updates and evictions of containers that plugins ask for, in an answer or by UpdateContainers.

use std::sync::Arc;

use tracing::{info, warn};

use super::service::Shared;
use crate::{translate::parse::adjustment::limits, wire::nri};

/// What a plugin asked for.
pub(super) struct RequestedUpdates {
    /// Its index and name; in logs only.
    pub(super) plugin: String,
    pub(super) updates: Vec<nri::ContainerUpdate>,
    pub(super) evictions: Vec<nri::ContainerEviction>,
}

impl Shared {
    /// Does what a plugin asked for in an answer, beside the call that it answered.
    pub(super) fn carry_out(self: &Arc<Self>, requested: RequestedUpdates) {
        if requested.updates.is_empty() && requested.evictions.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        self.tracker.spawn(async move {
            // What failed is in the log.
            let _ = shared.update_containers(requested).await;
        });
    }

    /// Changes and stops containers as a plugin asks for. Returns the updates that failed, and an error
    /// when one of them may not.
    pub(super) async fn update_containers(
        &self,
        requested: RequestedUpdates,
    ) -> Result<Vec<nri::ContainerUpdate>, String> {
        let RequestedUpdates { plugin, updates, evictions } = requested;
        let Some(hooks) = self.hooks.get() else { return Ok(updates) };
        let mut failed = Vec::new();
        for eviction in evictions {
            let (container, reason) = (eviction.container_id, eviction.reason);
            info!(plugin, container, reason, "an NRI plugin evicts a container");
            if let Err(error) = (hooks.stop)(container.clone()).await {
                warn!(
                    plugin,
                    container, error, "cannot stop a container that an NRI plugin evicts"
                );
            }
        }
        let mut error = None;
        for update in updates {
            let asked = update.linux.as_ref().and_then(|linux| linux.resources.as_ref());
            let container = update.container_id.clone();
            let is_there = self.store.snapshot().container(&container).is_some();
            let (Some(asked), true) = (asked, is_there) else { continue };
            let done = match limits(asked) {
                Ok(limits) => (hooks.update)(container.clone(), limits).await,
                Err(error) => Err(error.to_string()),
            };
            let Err(cause) = done else { continue };
            warn!(
                plugin,
                container,
                error = cause,
                "cannot change the limits of a container as an NRI plugin asks for"
            );
            if !update.ignore_failure {
                error.get_or_insert(format!("container {container}: {cause}"));
            }
            failed.push(update);
        }
        error.map_or(Ok(failed), Err)
    }
}

/// In logs, for what several plugins ask for together.
pub(super) const ALL_PLUGINS: &str = "all";
