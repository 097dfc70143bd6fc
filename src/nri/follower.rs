//! Reports changes in the store that no CRI call has reported to plugins, such as a removal by `docker rm`.

use std::sync::Arc;

use super::{
    lifecycle::Stage,
    service::{LockedPlugins, Plugins, Shared},
};
use crate::store::snapshot::Snapshot;

impl Shared {
    pub(super) async fn follow(self: Arc<Self>) {
        let mut last = self.store.snapshot();
        loop {
            let newer = self.store.when(|now| (!Arc::ptr_eq(now, &last)).then(|| Arc::clone(now)));
            let now = tokio::select! {
                now = newer => now,
                () = self.shutdown.cancelled() => return,
            };
            let Some(now) = now else { return };
            last = now;
            if self.creations.are_asked() {
                let mut locked = self.lock_plugins().await;
                let now = self.store.snapshot();
                locked.catch_up(&now).await;
            }
        }
    }
}

impl LockedPlugins<'_> {
    /// Reports starts and ends of containers, and removals of pods and containers, that plugins do not know yet.
    pub(super) async fn catch_up(&mut self, now: &Snapshot) {
        if self.plugins.connected.is_empty() || !now.is_synced() {
            return;
        }
        let (started, ended) = changed(&mut self.plugins, now);
        for id in started {
            self.post_start(&id).await;
        }
        for id in ended {
            self.stop_container(&id).await;
        }
        let gone = |id: &&String| now.container(id).is_none();
        let lost: Vec<String> = self.plugins.containers.0.keys().filter(gone).cloned().collect();
        for id in lost {
            self.remove_container(&id).await;
        }
        let gone = |id: &&String| now.sandbox(id).is_none();
        let lost: Vec<String> = self.plugins.pods.0.keys().filter(gone).cloned().collect();
        for id in lost {
            self.remove_pod(&id).await;
        }
    }
}

/// Stores the records. Returns running containers without a reported start, and ended ones without a reported end.
fn changed(plugins: &mut Plugins, now: &Snapshot) -> (Vec<String>, Vec<String>) {
    let (mut started, mut ended) = (Vec::new(), Vec::new());
    for (id, known) in &mut plugins.containers.0 {
        let Some(record) = now.container(id) else { continue };
        known.record = Arc::clone(record);
        let process = &record.process;
        match known.stage {
            Stage::Created | Stage::Stopped if process.is_running() => started.push(id.clone()),
            Stage::Created | Stage::Running if process.has_ended() => ended.push(id.clone()),
            _ => {}
        }
    }
    for (id, known) in &mut plugins.pods.0 {
        if let Some(record) = now.sandbox(id) {
            known.record = Arc::clone(record);
        }
    }
    (started, ended)
}
