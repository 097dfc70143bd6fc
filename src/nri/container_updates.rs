//! Updates and evictions of containers, which plugins request in an answer or with UpdateContainers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::timeout};
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
    /// Executes the updates and evictions of a plugin's answer or request in a task, after those of all earlier answers
    /// and requests: several can change the same container, and the latest decision must win. `plugin` is only for
    /// logs. The receiver gets the result of [`Self::update_containers`], or nothing if dockbridge stops first.
    pub(super) fn carry_out(
        self: &Arc<Self>,
        plugin: String,
        updates: Vec<nri::ContainerUpdate>,
        evictions: Vec<nri::ContainerEviction>,
    ) -> oneshot::Receiver<Result<Vec<nri::ContainerUpdate>, String>> {
        let (done, result) = oneshot::channel();
        if updates.is_empty() && evictions.is_empty() {
            drop(done.send(Ok(updates)));
            return result;
        }
        let shared = Arc::clone(self);
        let mut last = self.last_updates.lock();
        let earlier = last.take();
        *last = Some(self.tracker.spawn(async move {
            if let Some(earlier) = earlier {
                drop(earlier.await);
            }
            if !shared.shutdown.is_cancelled() {
                drop(done.send(shared.update_containers(plugin, updates, evictions).await));
            }
        }));
        result
    }

    /// Changes and stops containers as a plugin requests. Returns the updates that failed, or an error if the
    /// plugin did not set `ignore_failure` for a failed update.
    async fn update_containers(
        &self,
        plugin: String,
        updates: Vec<nri::ContainerUpdate>,
        evictions: Vec<nri::ContainerEviction>,
    ) -> Result<Vec<nri::ContainerUpdate>, String> {
        let Some(hooks) = self.hooks.get() else { return Ok(updates) };
        // dockbridge skips updates and evictions of containers that are gone or still hidden from clients.
        let is_there = |id: &str| {
            let now = self.store.snapshot();
            now.container(id).is_some_and(|record| !self.creations.hides_container(record))
        };
        // A container with several evictions is killed only once.
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
        // `add` fails only if two plugins set the same field, but all these updates count as one plugin's.
        let _ = merged.add(&mut Owners::default(), &plugin, &updates);
        let (mut failed, mut error) = (Vec::new(), None);
        for update in merged.all() {
            let asked = update.linux.as_ref().and_then(|linux| linux.resources.as_ref());
            let container = update.container_id.clone();
            // The limits from the answer about a new container must be set before those of a later update.
            let _ = timeout(CREATION_TIMEOUT, self.adjusted(&container)).await;
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

    /// Waits while dockbridge asks plugins about a new container or carries out their answers.
    async fn adjusted(&self, id: &str) {
        let mut reveals = self.creations.reveals();
        let is_being_adjusted = || {
            let now = self.store.snapshot();
            now.container(id).is_some_and(|record| self.creations.is_being_adjusted(record))
        };
        while is_being_adjusted() {
            reveals.next().await;
        }
    }
}

/// How long an update waits for a hidden container. dockbridge skips the update if the container is then still hidden.
const CREATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the plugin in logs of updates and evictions that come from the merged answers of plugins.
pub(super) const ALL_PLUGINS: &str = "all";
