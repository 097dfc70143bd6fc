//! Tests of cached results that dockbridge cannot read, or cannot read completely.

use super::*;

/// A pod whose cache file cannot be read does not count as disconnected. But a cache file that a power loss has
/// truncated must not prevent the removal of a pod whose attachment dockbridge knows.
#[tokio::test]
async fn an_unreadable_cache_does_not_pass_for_an_empty_one() {
    let node = usual();
    node.list("10-pods.conflist", "1.0.0", &["a"]);
    let network = node.network();
    let cni = network.prepare(node.pod('a')).await.unwrap();
    let id = cni.pod.id.clone();
    let file = cached(&node, &cni);
    fs::create_dir_all(&file).unwrap();
    network.detach(&cni).await.unwrap_err();
    network.has_attachment(&id).await.unwrap_err();
    network.detach_unknown(&id, &cni.pod.netns).await.unwrap_err();
    network.attachment_from_cache(cni.pod.clone()).await.unwrap_err();
    network.release_stale(&[]).await.unwrap_err();
    assert_eq!(node.calls(), [""; 0]);
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "{").unwrap();
    network.has_attachment(&id).await.unwrap_err();
    network.detach_unknown(&id, &cni.pod.netns).await.unwrap_err();
    assert!(network.attachment_from_cache(cni.pod.clone()).await.unwrap().is_none());
    network.detach(&cni).await.unwrap();
    assert_eq!(node.calls(), ["a DEL"]);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_cached_result_without_a_readable_configuration_is_not_released() {
    let node = usual();
    let network = node.network();
    let id = node.pod('a').id;
    let (results, gone) = (node.path("cache/results"), node.path("gone"));
    fs::create_dir_all(&results).unwrap();
    let entry = json!({
        "kind": "cniCacheV1", "containerId": id, "ifName": "eth0", "networkName": "pods",
        "netns": gone, "config": "e30=", "result": {}, "owner": "dockbridge",
    });
    let file = results.join(format!("pods-{id}-eth0"));
    fs::write(&file, entry.to_string()).unwrap();
    let error = network.detach_unknown(&id, &gone).await.unwrap_err();
    assert!(error.to_string().contains("network pods"), "{error}");
    network.release_stale(&[]).await.unwrap_err();
    assert!(file.exists());
}
