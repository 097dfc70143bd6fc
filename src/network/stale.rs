//! Finds the stale attachments of lost pods.

use std::{collections::HashSet, path::Path};

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

/// Those of the cached results that must be released: not those of `live` pods.
///
/// The cache may be shared with another runtime whose namespaces are not visible here. So an attachment is
/// stale only if dockbridge or cri-dockerd made it and its namespace is gone.
pub(super) fn stale(entries: Vec<CachedResult>, live: HashSet<AttachmentKey>) -> Vec<CachedResult> {
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
    stale
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

#[cfg(test)]
mod tests;
