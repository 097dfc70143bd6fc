//! Recovery and cleanup while the server runs. At the start, dockbridge repairs what a crash or the loss of a
//! directory has damaged. Later dockbridge repairs from time to time what other programs have changed.
//!
//! Cleanup waits until the store is complete ([`Store::complete`]), except the cleanup of leftover ExecSync commands
//! and of unfinished container and pod checkpoints.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::{
    container::{exec_sync::Commands, limits::service::Limits, node::Node},
    error::chain,
    image_files::service::ImageFiles,
    logs::service::Logs,
    sandbox::service::Sandboxes,
    store::handle::Store,
};

/// When Docker has sent its first list, recovers from a crash or a lost directory, and then retries failed CNI DELs.
pub(super) async fn recover(
    sandboxes: Sandboxes,
    node: Arc<Node>,
    commands: Commands,
    tracker: TaskTracker,
    interval: Duration,
) {
    let Node { store, image_files, .. } = &*node;
    let is_synced = store.synced(Duration::MAX).await.is_ok();
    // Unlike the cleanup below, the kill of a leftover command waits only for the inspect of the command's container.
    tracker.spawn(async move { commands.end_left_commands().await });
    if is_synced {
        sandboxes.recover_sandboxes(&tracker).await;
    }
    if store.complete().await.is_some() {
        let images = async {
            sweep_inspections(image_files).await;
            image_files.restore_directories().await;
        };
        // `clean_up` and `images` run at the same time, because the CNI plugins in `clean_up` may hang.
        tracker.track_future(async { tokio::join!(sandboxes.clean_up(), images) }).await;
        match sandboxes.repeat_releases(&tracker, interval).await {}
    }
}

/// From time to time, removes leftover files, and restores resource limits and checkpoint files.
pub(super) async fn sweep(
    Node { store, logs, image_files, saved_changes, .. }: &Node,
    limits: &Limits,
    sandboxes: &Sandboxes,
    interval: Duration,
) -> Infallible {
    loop {
        if wait_until_inspected(store).await {
            refresh_unlisted(store, logs).await;
            image_files.sweep().await;
            saved_changes.remove_gone(store).await;
            limits.restore().await;
            sandboxes.sweep_edits().await;
            sandboxes.reconcile_checkpoints().await;
        }
        tokio::time::sleep(interval).await;
    }
}

/// Waits until the store is complete, and warns about inspects that take long. Returns false if the store has ended.
async fn wait_until_inspected(store: &Store) -> bool {
    loop {
        match tokio::time::timeout(WARN_AFTER, store.complete()).await {
            Ok(complete) => return complete.is_some(),
            Err(_)
                if !store.snapshot().has_images() || store.snapshot().other_store().is_some() => {}
            Err(_) => {
                let objects: Vec<String> = store.snapshot().uninspected().take(10).collect();
                warn!(
                    ?objects,
                    "docker inspect of some objects has not succeeded; the periodic cleanup has not started yet"
                );
            }
        }
    }
}

/// Inspects containers that have a log but that the store does not show, for example because they were removed.
/// If a container was removed, a hook of the store then ends its log.
async fn refresh_unlisted(store: &Store, logs: &Logs) {
    let now = store.snapshot();
    for id in logs.known() {
        if now.container(id.as_str()).is_none()
            && let Err(error) = store.refresh_container(id.as_str()).await
        {
            debug!(
                container = %id,
                error = chain(&error),
                "cannot inspect a container that the store does not show; continuing to write its log"
            );
        }
    }
}

/// Removes inspection containers that the engine was still creating for a killed dockbridge process.
pub(super) async fn sweep_inspections_later(node: &Node) -> Infallible {
    node.store.complete().await;
    tokio::time::sleep(SWEEP_INSPECTIONS_AFTER).await;
    sweep_inspections(&node.image_files).await;
    std::future::pending().await
}

async fn sweep_inspections(image_files: &ImageFiles) {
    if let Err(error) = image_files.sweep_inspections().await {
        warn!(error = chain(&error), "cannot remove leftover image inspection containers");
    }
}

/// How long the periodic cleanup waits for inspects before each warning.
const WARN_AFTER: Duration = Duration::from_secs(60);
/// How long the engine may continue to process calls of a previous dockbridge process that was killed.
const SWEEP_INSPECTIONS_AFTER: Duration = Duration::from_secs(10);
