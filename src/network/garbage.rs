//! Telling links that nobody holds any more from those that must not be touched.

use std::{collections::HashSet, path::Path};

use super::cni::cache::Entry;
use crate::{host::netns, model::network::AttachmentIntent};

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

/// Splits what is remembered into what is to be released, and what is held (with `live`).
///
/// The cache may be shared with another runtime, whose namespaces we may not even see. So only
/// a link that one of Docker's shims made, and whose namespace has gone, counts as left over.
pub(super) fn sort(entries: Vec<Entry>, live: &[AttachmentIntent]) -> (Vec<Entry>, HashSet<Held>) {
    let mut held: HashSet<Held> = live
        .iter()
        .map(|intent| Held {
            network: intent.network.clone(),
            container: intent.pod.id.to_string(),
            interface: intent.interface.clone(),
        })
        .collect();
    let mut stale = Vec::new();
    for entry in entries {
        let link = Held {
            network: entry.network.clone(),
            container: entry.container.clone(),
            interface: entry.interface.clone(),
        };
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

#[cfg(test)]
mod tests;
