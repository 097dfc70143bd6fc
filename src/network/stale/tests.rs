//! Tests which attachments in libcni's cache are stale: those that are certainly unused.

use serde_json::{Map, Value};

use super::*;
use crate::network::fixture::TestNode;

fn key(container: &str) -> AttachmentKey {
    AttachmentKey {
        network: "pods".to_owned(),
        container: container.to_owned(),
        interface: "eth0".to_owned(),
    }
}

fn entry(container: &str, netns: Option<&str>, ours: bool) -> CachedResult {
    CachedResult {
        key: key(container),
        netns: netns.map(str::to_owned),
        config: None,
        arguments: Vec::new(),
        capabilities: Map::new(),
        result: Value::Null,
        ours,
    }
}

fn released(entries: Vec<CachedResult>) -> Vec<String> {
    stale(entries, HashSet::new()).into_iter().map(|entry| entry.key.container).collect()
}

#[test]
fn only_abandoned_attachments_of_dockers_shims_are_stale() {
    let alive = format!("/proc/{}/ns/net", std::process::id());
    let entries = vec![
        entry("ours-gone", Some("/nowhere/n"), true),
        entry("ours-unknown", None, true),
        entry("shim-gone", Some("/proc/4194399/ns/net"), false),
        entry("shim-alive", Some(&alive), false),
        entry("shim-hidden", Some("/proc/1/ns/net"), false),
        entry("other-runtime", Some("/run/netns/cni-1"), false),
        entry("odd", Some("/proc/self/ns/net"), false),
    ];
    assert_eq!(released(entries), ["ours-gone", "shim-gone"]);
}

#[test]
fn an_entry_in_use_protects_later_ones_of_the_same_attachment() {
    let entries = vec![entry("a", None, true), entry("a", Some("/nowhere/n"), true)];
    assert_eq!(released(entries), Vec::<String>::new());
}

#[test]
fn a_live_pod_is_not_stale_even_without_its_namespace() {
    let node = TestNode::new();
    let pod = node.pod('a');
    let id = pod.id.to_string();
    let live = CniAttachment {
        pod,
        network: "pods".to_owned(),
        interface: "eth0".to_owned(),
        config: String::new(),
        pod_cidrs: Vec::new(),
        capabilities: None,
    };
    let entries = vec![entry(&id, Some("/nowhere/n"), true)];
    assert!(stale(entries, HashSet::from([AttachmentKey::from(&live)])).is_empty());
}
