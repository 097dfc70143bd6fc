//! Telling links that nobody holds any more from those that must not be touched.

use std::{
    collections::HashSet,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{sleep, timeout},
};

use super::cni::cache::Entry;
use crate::{host::netns, model::attachment::AttachmentIntent};

/// A link that is in use, or may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    /// Name of the network.
    pub(super) network: String,
    /// The container.
    pub(super) container: String,
    /// Name of the interface in it.
    pub(super) interface: String,
}

impl From<&AttachmentIntent> for Held {
    fn from(intent: &AttachmentIntent) -> Self {
        Self {
            network: intent.network.clone(),
            container: intent.pod.id.to_string(),
            interface: intent.interface.clone(),
        }
    }
}

impl From<&Entry> for Held {
    fn from(entry: &Entry) -> Self {
        Self {
            network: entry.network.clone(),
            container: entry.container.clone(),
            interface: entry.interface.clone(),
        }
    }
}

/// The links this process made or is making. A list of live pods that a caller took a moment
/// ago may miss the youngest; plugins told to drop all others would drop those.
#[derive(Debug, Default)]
pub(super) struct Links {
    held: Mutex<HashSet<Held>>,
    adding: RwLock<()>,
}

impl Links {
    /// Holds a link, and keeps garbage collection away until the guard is dropped.
    pub(super) async fn add(&self, link: Held) -> RwLockReadGuard<'_, ()> {
        let adding = self.adding.read().await;
        self.held().insert(link);
        adding
    }

    /// Lets a released link go.
    pub(super) fn forget(&self, link: &Held) {
        self.held().remove(link);
    }

    /// Those held now.
    pub(super) fn all(&self) -> HashSet<Held> {
        self.held().clone()
    }

    /// A moment in which nothing is being connected; new connections wait. None when there was
    /// no such moment for a while: waiting in line would hold up every new pod behind one slow.
    pub(super) async fn quiet(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        let moment = async {
            loop {
                if let Ok(quiet) = self.adding.try_write() {
                    return quiet;
                }
                sleep(QUIET_PAUSE).await;
            }
        };
        timeout(patience, moment).await.ok()
    }

    fn held(&self) -> MutexGuard<'_, HashSet<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits what is remembered into what is to be released, and what is held (beside `live`).
///
/// The cache may be shared with another runtime, whose namespaces we may not even see. So only
/// a link that one of Docker's shims made, and whose namespace has gone, counts as left over.
pub(super) fn sort(entries: Vec<Entry>, live: HashSet<Held>) -> (Vec<Entry>, HashSet<Held>) {
    let mut held = live;
    let mut stale = Vec::new();
    for entry in entries {
        let link = Held::from(&entry);
        if held.contains(&link) {
            continue;
        }
        if is_abandoned(&entry) {
            stale.push(entry);
        } else {
            held.insert(link);
        }
    }
    (stale, held)
}

fn is_abandoned(entry: &Entry) -> bool {
    let Some(netns) = entry.netns.as_deref() else { return false };
    (entry.ours || is_of_process(netns)) && netns::is_gone(Path::new(netns))
}

/// Only shims over Docker name a namespace by its process; pids are looked up in our view.
fn is_of_process(netns: &str) -> bool {
    let pid = netns.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/ns/net"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

const QUIET_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
