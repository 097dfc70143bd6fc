//! Finds the stale network attachments of lost pods.

use std::{collections::HashSet, path::Path};

use super::cni::cache::{AttachmentKey, CachedResult};
use crate::{host::netns, model::attachment::CniAttachment};

impl From<&CniAttachment> for AttachmentKey {
    fn from(cni: &CniAttachment) -> Self {
        Self {
            network: cni.network.clone(),
            container: cni.pod.id.to_string(),
            interface: cni.interface.clone(),
        }
    }
}

/// The cached results of the attachments that dockbridge must release, without those that have a key in `live`.
///
/// Another runtime may use the same cache, and dockbridge might not see the network namespaces of its pods. So an
/// attachment is stale only if dockbridge or cri-dockerd created it and its network namespace is gone.
pub(super) fn stale(entries: Vec<CachedResult>, live: HashSet<AttachmentKey>) -> Vec<CachedResult> {
    let mut active = live;
    let mut stale = Vec::new();
    for entry in entries {
        // An entry is also in use if an earlier entry has the same key and is in use.
        if active.contains(&entry.key) {
            continue;
        }
        if is_abandoned(&entry) {
            stale.push(entry);
        } else {
            active.insert(entry.key);
        }
    }
    stale
}

fn is_abandoned(entry: &CachedResult) -> bool {
    is_ours(entry) && entry.netns.as_deref().is_some_and(|netns| netns::is_gone(Path::new(netns)))
}

/// Whether dockbridge wrote the cache entry, or the entry has a namespace path like those of cri-dockerd.
pub(super) fn is_ours(entry: &CachedResult) -> bool {
    entry.ours || entry.netns.as_deref().is_some_and(is_of_process)
}

/// Whether the path names a namespace by a pid, as only cri-dockerd and dockershim are known to do.
fn is_of_process(netns: &str) -> bool {
    let pid = netns.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/ns/net"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
