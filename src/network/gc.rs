//! Finds the stale attachments of lost pods.

use std::{collections::HashSet, path::Path, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{self, sleep},
};

use super::cni::cache::{AttachmentKey, CachedResult};
use crate::{host::netns, model::attachment::AttachmentIntent};

impl From<&AttachmentIntent> for AttachmentKey {
    fn from(intent: &AttachmentIntent) -> Self {
        Self {
            network: intent.network.clone(),
            container: intent.pod.id.to_string(),
            interface: intent.interface.clone(),
        }
    }
}

/// The attachments that this process has made or is making. A recent list of live pods may lack the newest
/// ones, and a GC with that list would delete them.
#[derive(Debug, Default)]
pub(super) struct ActiveAttachments {
    active: Mutex<HashSet<AttachmentKey>>,
    adding: RwLock<()>,
}

impl ActiveAttachments {
    /// Records an attachment as active, and blocks GC until the guard is dropped.
    pub(super) async fn add(&self, key: AttachmentKey) -> RwLockReadGuard<'_, ()> {
        let adding = self.adding.read().await;
        self.active.lock().insert(key);
        adding
    }

    pub(super) fn remove(&self, key: &AttachmentKey) {
        self.active.lock().remove(key);
    }

    pub(super) fn all(&self) -> HashSet<AttachmentKey> {
        self.active.lock().clone()
    }

    /// Blocks new attachments while the guard is held. None if attachments were made all the time: a wait
    /// for the lock would delay every new pod behind a slow one.
    pub(super) async fn pause(&self, timeout: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        let paused = async {
            loop {
                if let Ok(guard) = self.adding.try_write() {
                    return guard;
                }
                sleep(RETRY_INTERVAL).await;
            }
        };
        time::timeout(timeout, paused).await.ok()
    }
}

/// Splits the cached results into those to release and those in use (with `live`).
///
/// The cache may be shared with another runtime whose namespaces are not visible here. So an attachment is
/// stale only if dockbridge or cri-dockerd made it and its namespace is gone.
pub(super) fn split_stale(
    entries: Vec<CachedResult>,
    live: HashSet<AttachmentKey>,
) -> (Vec<CachedResult>, HashSet<AttachmentKey>) {
    let mut active = live;
    let mut stale = Vec::new();
    for entry in entries {
        // Also if an earlier entry with the same key is in use.
        if active.contains(&entry.key) {
            continue;
        }
        if is_abandoned(&entry) {
            stale.push(entry);
        } else {
            active.insert(entry.key);
        }
    }
    (stale, active)
}

fn is_abandoned(entry: &CachedResult) -> bool {
    is_ours(entry) && entry.netns.as_deref().is_some_and(|netns| netns::is_gone(Path::new(netns)))
}

/// Whether dockbridge or cri-dockerd made it.
pub(super) fn is_ours(entry: &CachedResult) -> bool {
    entry.ours || entry.netns.as_deref().is_some_and(is_of_process)
}

/// Only cri-dockerd and dockershim identify a namespace by a pid.
fn is_of_process(netns: &str) -> bool {
    let pid = netns.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/ns/net"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

const RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
