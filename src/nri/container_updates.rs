//! Updates and evictions of containers that plugins request, in an answer or by UpdateContainers.

use std::{collections::BTreeMap, sync::Arc};

use tracing::{info, warn};

use super::service::Shared;
use crate::{
    error::shortened,
    translate::{
        limits::nri::read,
        nri::{owners::Owners, updates::Updates},
    },
    wire::nri,
};

impl Shared {
    /// Executes the updates in a plugin's answer, in parallel with the call that it answered. `plugin` is for
    /// logs only.
    pub(super) fn carry_out(
        self: &Arc<Self>,
        plugin: String,
        updates: Vec<nri::ContainerUpdate>,
        evictions: Vec<nri::ContainerEviction>,
    ) {
        if updates.is_empty() && evictions.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        self.tracker.spawn(async move {
            // Failures are logged.
            let _ = shared.update_containers(plugin, updates, evictions).await;
        });
    }

    /// Changes and stops containers as a plugin requests. Returns the updates that failed, and an error if
    /// one of them must not fail.
    pub(super) async fn update_containers(
        &self,
        plugin: String,
        updates: Vec<nri::ContainerUpdate>,
        evictions: Vec<nri::ContainerEviction>,
    ) -> Result<Vec<nri::ContainerUpdate>, String> {
        let Some(hooks) = self.hooks.get() else { return Ok(updates) };
        let now = self.store.snapshot();
        // Skips containers that are gone or still being created.
        let is_there = |id: &str| {
            now.container(id).is_some_and(|record| !self.creations.hides_container(record))
        };
        // Only once for each container, however long the list is.
        let evicted: BTreeMap<String, String> = (evictions.into_iter())
            .filter(|eviction| is_there(&eviction.container_id))
            .map(|eviction| (eviction.container_id, shortened(eviction.reason)))
            .collect();
        for (container, reason) in evicted {
            info!(plugin, container, reason, "an NRI plugin evicts a container");
            if let Err(error) = hooks.kill(container.clone()).await {
                warn!(
                    plugin,
                    container, error, "cannot stop a container that an NRI plugin evicts"
                );
            }
        }
        let mut merged = Updates::default();
        // Updates of one plugin cannot conflict with each other.
        let _ = merged.add(&mut Owners::default(), &plugin, &updates);
        let (mut failed, mut error) = (Vec::new(), None);
        for update in merged.all() {
            let asked = update.linux.as_ref().and_then(|linux| linux.resources.as_ref());
            let container = update.container_id.clone();
            let (Some(asked), true) = (asked, is_there(&container)) else { continue };
            let done = match read(asked) {
                Ok(limits) => hooks.update(container.clone(), limits).await,
                Err(error) => Err(error.to_string()),
            };
            let Err(cause) = done else { continue };
            warn!(
                plugin,
                container,
                error = cause,
                "cannot apply the limits that an NRI plugin requested for a container"
            );
            if !update.ignore_failure {
                error.get_or_insert(format!("container {container}: {cause}"));
            }
            failed.push(update);
        }
        error.map_or(Ok(failed), Err)
    }
}

/// Used in logs if several plugins request something together.
pub(super) const ALL_PLUGINS: &str = "all";
