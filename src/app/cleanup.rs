//! What is put right and cleared away beside the serving: at the start what a crash or a lost
//! directory left, and from time to time what others have removed or set back.
//!
//! Whatever deletes, forgets or sets back waits until everything was inspected.

use std::{convert::Infallible, time::Duration};

use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::{
    container::room::Containers, error::chain, logs::service::Logs, rootfs::room::Rootfs,
    sandbox::room::Sandboxes, store::handle::Store,
};

/// Puts right, once Docker has answered, what a lost directory or a crash left behind.
pub(super) async fn recover(
    sandboxes: Sandboxes,
    (rootfs, containers): (Rootfs, Containers),
    store: Store,
    tracker: TaskTracker,
) {
    let is_synced = store.synced(Duration::MAX).await.is_ok();
    // Before what waits for every pod to be inspected: each waits for its own container only.
    tracker.spawn(async move { containers.end_left_commands().await });
    if is_synced {
        sandboxes.recover_sandboxes(&tracker).await;
    }
    if store.complete().await.is_some() {
        tracker.track_future(sandboxes.clear_up()).await;
        tracker.track_future(sweep_peeks(&rootfs)).await;
        tracker.track_future(rootfs.put_right()).await;
    }
}

/// Lets go of what is kept for containers that others have removed, and puts right what others
/// have set back.
pub(super) async fn sweep(
    store: &Store,
    logs: &Logs,
    (rootfs, containers, sandboxes): (&Rootfs, &Containers, &Sandboxes),
    every: Duration,
) -> Infallible {
    loop {
        if complete(store).await {
            find_gone(store, logs).await;
            rootfs.sweep().await;
            containers.resized().keep(store).await;
            containers.restore_limits().await;
            sandboxes.sweep().await;
        }
        tokio::time::sleep(every).await;
    }
}

/// Waits until everything was inspected; says so if that takes long.
async fn complete(store: &Store) -> bool {
    loop {
        match tokio::time::timeout(UNINSPECTED_PATIENCE, store.complete()).await {
            Ok(complete) => return complete.is_some(),
            Err(_) if !store.snapshot().has_images() => {}
            Err(_) => {
                let objects: Vec<String> = store.snapshot().uninspected().take(10).collect();
                warn!(
                    ?objects,
                    "docker inspect does not answer for these objects; no cleanup until it does"
                );
            }
        }
    }
}

/// Has the engine asked for containers whose log is kept and which nothing else shows: whether one
/// is gone, or only renamed, an inspect tells. What is gone is removed by the store's hook.
async fn find_gone(store: &Store, logs: &Logs) {
    let now = store.snapshot();
    for id in logs.known().await {
        if now.container(id.as_str()).is_none()
            && let Err(error) = store.refresh_container(id.as_str()).await
        {
            debug!(container = %id, error = chain(&error), "log of a container that is not listed is kept");
        }
    }
}

/// What the engine was still making for a predecessor when that was killed.
pub(super) async fn sweep_peeks_later(rootfs: &Rootfs, store: &Store) -> Infallible {
    store.complete().await;
    tokio::time::sleep(SWEEP_PEEKS_AFTER).await;
    sweep_peeks(rootfs).await;
    std::future::pending().await
}

async fn sweep_peeks(rootfs: &Rootfs) {
    if let Err(error) = rootfs.sweep_peeks().await {
        warn!(error = chain(&error), "leftover image inspection containers could not be removed");
    }
}

/// How long inspects may take at the start before the operator hears of it, each time.
const UNINSPECTED_PATIENCE: Duration = Duration::from_secs(60);
/// How long a killed predecessor's calls may go on in the engine.
const SWEEP_PEEKS_AFTER: Duration = Duration::from_secs(10);
