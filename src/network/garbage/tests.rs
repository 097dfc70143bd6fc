//! Only what is certainly nobody's is released.

use serde_json::{Map, Value};

use super::*;
use crate::network::stage::Stage;

fn entry(container: &str, netns: Option<&str>, ours: bool) -> Entry {
    Entry {
        network: "pods".to_owned(),
        container: container.to_owned(),
        interface: "eth0".to_owned(),
        netns: netns.map(str::to_owned),
        config: None,
        arguments: Vec::new(),
        capabilities: Map::new(),
        result: Value::Null,
        ours,
    }
}

fn released(entries: Vec<Entry>) -> Vec<String> {
    sort(entries, HashSet::new()).0.into_iter().map(|entry| entry.container).collect()
}

#[test]
fn only_abandoned_links_of_dockers_shims_are_stale() {
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
fn what_is_live_is_held_even_without_namespace() {
    let stage = Stage::new();
    let pod = stage.pod('a');
    let id = pod.id.to_string();
    let live = AttachmentIntent {
        pod,
        network: "pods".to_owned(),
        interface: "eth0".to_owned(),
        config: String::new(),
        pod_cidrs: Vec::new(),
        capabilities: None,
    };
    let entries = vec![entry(&id, Some("/nowhere/n"), true)];
    let (stale, held) = sort(entries, HashSet::from([Held::from(&live)]));
    assert!(stale.is_empty());
    assert_eq!(held.into_iter().map(|link| link.container).collect::<Vec<_>>(), [id]);
}

#[tokio::test]
async fn collection_waits_for_connections_but_not_for_ever() {
    let links = Links::default();
    let link = Held {
        network: "pods".to_owned(),
        container: "abc".to_owned(),
        interface: "eth0".to_owned(),
    };
    let adding = links.add(link.clone()).await;
    assert!(links.quiet(Duration::from_millis(150)).await.is_none());
    drop(adding);
    assert!(links.quiet(Duration::from_millis(150)).await.is_some());
    assert_eq!(links.all(), HashSet::from([link.clone()]));
    links.forget(&link);
    assert!(links.all().is_empty());
}
