//! The snapshots of the store from which dockbridge answers CRI calls.

use std::sync::Arc;

use futures_util::future::join_all;
use tonic::Status;
use tracing::warn;

use super::runtime::RuntimeRpc;
use crate::{
    error::chain,
    model::record::{ListedState, Process},
    store::{settings::SYNC_TIMEOUT, snapshot::Snapshot},
};

impl RuntimeRpc {
    /// The current snapshot as clients may see it, or the reason why there is none yet.
    pub(super) async fn now(&self) -> Result<Arc<Snapshot>, Status> {
        let now = self.store.synced(SYNC_TIMEOUT).await?;
        Ok(self.nri.shown(now))
    }

    /// Waits up to [`SYNC_TIMEOUT`] until all running containers have been inspected. Returns the current snapshot.
    /// kubelet reads a missing value in a list of statistics as 0, so a container's counters would fall.
    pub(super) async fn measurable(&self) -> Result<Arc<Snapshot>, Status> {
        let are_inspected = |now: &Snapshot| {
            let pods = now.sandboxes().iter().filter_map(|pod| pod.process.as_ref());
            let mut all = pods.chain(now.containers().iter().map(|one| &one.process));
            let is_open = |it: &Process| matches!(it, Process::Listed(ListedState::Running));
            (now.is_synced() && !all.any(is_open)).then_some(())
        };
        self.store.wait(SYNC_TIMEOUT, are_inspected).await;
        self.now().await
    }

    /// Waits for a snapshot in which this container, or this pod and all its containers, have been inspected.
    /// If an inspect fails or takes too long, the container or pod has the state of the engine's list.
    pub(super) async fn inspected(&self, id: &str) -> Result<Arc<Snapshot>, Status> {
        let now = self.now().await?;
        let pod = now.sandbox(id).into_iter().flat_map(|pod| now.containers_of(&pod.id));
        let all = pod.map(|container| container.id.as_str()).chain([id]);
        let listed: Vec<&str> = all.filter_map(|id| now.listed_only(id)).collect();
        if listed.is_empty() {
            return Ok(now);
        }
        join_all(listed.into_iter().map(async |id| {
            if let Err(error) = self.store.inspected(id).await {
                warn!(
                    id,
                    error = chain(&error),
                    "docker inspect failed; answering from docker's list"
                );
            }
        }))
        .await;
        self.now().await
    }

    /// Waits up to [`SYNC_TIMEOUT`] until the engine has answered `/info`. Returns the current snapshot.
    pub(super) async fn described(&self) -> Arc<Snapshot> {
        self.store.wait(SYNC_TIMEOUT, |now| now.engine.is_some().then_some(())).await;
        self.store.snapshot()
    }
}
