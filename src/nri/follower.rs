//! Ends and removals without a CRI call, e.g. by `docker rm`: seen in the store, told to plugins.

use std::sync::Arc;

use super::{
    lifecycle::Stage,
    service::{Plugins, Shared},
};
use crate::store::snapshot::Snapshot;

impl Shared {
    /// Tells plugins of what the store shows, until dockbridge ends.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut last = self.store.snapshot();
        loop {
            let newer = self.store.when(|now| (!Arc::ptr_eq(now, &last)).then(|| Arc::clone(now)));
            let now = tokio::select! {
                now = newer => now,
                () = self.leaving.cancelled() => return,
            };
            let Some(now) = now else { return };
            last = now;
            if self.creations.are_asked() {
                let mut plugins = self.plugins().await;
                self.catch_up(&mut plugins).await;
            }
        }
    }

    /// Each end that has not been told.
    async fn catch_up(self: &Arc<Self>, plugins: &mut Plugins) {
        let now = self.store.snapshot();
        if plugins.connected.is_empty() || !now.is_synced() {
            return;
        }
        for id in ended(plugins, &now) {
            self.stop_container(plugins, &id).await;
        }
        let gone = |id: &&String| now.container(id).is_none();
        let lost: Vec<String> =
            plugins.lifecycles.containers.keys().filter(gone).cloned().collect();
        for id in lost {
            self.remove_container(plugins, &id).await;
        }
        let gone = |id: &&String| now.sandbox(id).is_none();
        let lost: Vec<String> = plugins.lifecycles.pods.keys().filter(gone).cloned().collect();
        for id in lost {
            for container in plugins.lifecycles.containers_of(&id) {
                self.remove_container(plugins, &container).await;
            }
            self.remove_pod(plugins, &id).await;
        }
        self.sweep(plugins);
    }
}

/// Containers that have ended, and keep the latest record of the others.
fn ended(plugins: &mut Plugins, now: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    for (id, known) in &mut plugins.lifecycles.containers {
        let Some(record) = now.container(id) else { continue };
        known.record = Arc::clone(record);
        if known.stage == Stage::Alive && record.process.has_ended() {
            found.push(id.clone());
        }
    }
    for (id, known) in &mut plugins.lifecycles.pods {
        if let Some(record) = now.sandbox(id) {
            known.record = Arc::clone(record);
        }
    }
    found
}
