//! Tests that connect and disconnect pods on a node with fake CNI plugins.

mod real_plugins;
mod unreadable_cache;

use std::{fs, time::Duration};

use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::{
    clock::forward,
    error::Kind,
    host::{file::Durability, netns},
    model::network::PortMapping,
    network::fixture::{ANSWER, PinnedNamespace, TestNode},
};

async fn wait_for(network: &Network, ready: bool) -> NetworkStatus {
    let until = Instant::now() + MINUTES;
    while network.status().ready != ready {
        assert!(Instant::now() < until, "still {:?}", network.status());
        sleep(Duration::from_millis(10)).await;
    }
    network.status()
}

/// Waits until exactly the plugin calls in `calls` have begun.
async fn called(node: &TestNode, calls: &[&str]) {
    let until = Instant::now() + MINUTES;
    while node.calls() != calls {
        assert!(Instant::now() < until, "called are {:?}", node.calls());
        sleep(Duration::from_millis(10)).await;
    }
}

/// Limit for plugins and for the waits of tests, much longer than either needs on a busy machine.
const MINUTES: Duration = Duration::from_secs(300);

fn usual() -> TestNode {
    let node = TestNode::new();
    node.plugin("a", ANSWER);
    node.plugin("b", ANSWER);
    node.list("10-pods.conflist", "1.0.0", &["a", "b"]);
    node
}

/// Prepares a pod and pins a network namespace for it. Returns `None` if the test has no permission to pin a namespace.
async fn prepare_pinned(
    network: &Network,
    pod: PodNetwork,
) -> Option<(CniAttachment, PinnedNamespace)> {
    let pinned = PinnedNamespace::at(&pod.netns)?;
    Some((network.prepare(pod).await.unwrap(), pinned))
}

fn cached(node: &TestNode, cni: &CniAttachment) -> PathBuf {
    node.path("cache/results").join(format!("pods-{}-eth0", cni.pod.id))
}

#[tokio::test]
async fn a_pod_is_attached_and_detached() {
    let node = usual();
    let network = node.network();
    let Some((cni, pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    let attached = network.attach(&cni).await.unwrap();
    assert_eq!(attached.addresses, ["10.9.0.2".parse::<IpAddr>().unwrap()]);
    assert!(cached(&node, &cni).exists());
    let found = network.attachment_from_cache(cni.pod.clone()).await.unwrap().unwrap();
    assert_eq!(found.addresses(), attached.addresses);
    assert_eq!(found.cni(), Some(&cni));
    network.detach(&cni).await.unwrap();
    assert!(!cached(&node, &cni).exists());
    assert_eq!(node.calls(), ["a ADD", "b ADD", "b DEL", "a DEL"]);
    assert_eq!(node.input("a", "DEL")["prevResult"], attached.result);
    assert!(network.attachment_from_cache(cni.pod.clone()).await.unwrap().is_none());
    let netns = format!("CNI_NETNS={}\n", cni.pod.netns.display());
    assert!(node.environment("a", "DEL").contains(&netns));
    drop(pinned);
    network.detach(&cni).await.unwrap();
    assert!(node.environment("a", "DEL").contains("CNI_NETNS=\n"));
    assert_eq!(node.input("a", "DEL").get("prevResult"), None);
}

#[tokio::test]
async fn loopback_is_up_before_plugins_run() {
    let node = usual();
    let network = node.network();
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    network.attach(&cni).await.unwrap();
    netns::within(&cni.pod.netns, || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        std::net::TcpStream::connect(listener.local_addr()?).map(|_| ())
    })
    .unwrap();
}

#[tokio::test]
async fn without_configuration_the_error_names_the_directory_and_its_files() {
    let node = TestNode::new();
    let network = node.network();
    let error = network.prepare(node.pod('a')).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    let conf = node.path("conf").display().to_string();
    assert_eq!(
        error.to_string(),
        format!("pods cannot be connected to a network: no *.conflist, *.conf or *.json in {conf}")
    );
    node.list("10-pods.conflist", "1.0.0", &["absent"]);
    let error = network.ensure_configured().await.unwrap_err().to_string();
    assert!(error.contains("10-pods.conflist: network plugin absent"), "{error}");
    // dockbridge finds a configuration that was written after the last read.
    node.plugin("a", ANSWER);
    node.list("10-pods.conflist", "1.0.0", &["a"]);
    network.ensure_configured().await.unwrap();
}

#[tokio::test]
async fn readiness_follows_the_directory() {
    let node = usual();
    let network = node.network();
    assert!(wait_for(&network, true).await.message.contains("10-pods.conflist"));
    fs::remove_file(node.path("conf/10-pods.conflist")).unwrap();
    assert_eq!(wait_for(&network, false).await.reason, "NetworkPluginNotReady");
    node.list("20-late.conflist", "1.0.0", &["late"]);
    let until = Instant::now() + MINUTES;
    while !network.status().message.contains("late, VERSION: the plugin is not") {
        assert!(Instant::now() < until, "still {:?}", network.status());
        sleep(Duration::from_millis(10)).await;
    }
    node.plugin("late", ANSWER);
    wait_for(&network, true).await;
    fs::remove_dir_all(node.path("conf")).unwrap();
    assert!(wait_for(&network, false).await.message.contains("the path does not exist"));
    fs::create_dir(node.path("conf")).unwrap();
    node.list("10-pods.conflist", "1.0.0", &["a"]);
    wait_for(&network, true).await;
}

#[tokio::test]
async fn a_plugin_that_comes_into_the_folder_of_the_network_is_used() {
    let node = usual();
    let network = node.network();
    wait_for(&network, true).await;
    for kind in ["policy", "tuning"] {
        node.plugin(kind, ANSWER);
        fs::create_dir_all(node.path("conf/pods")).unwrap();
        node.conf(&format!("pods/{kind}.conf"), &json!({"type": kind}));
        let has_it = async || network.prepare(node.pod('a')).await.unwrap().config.contains(kind);
        let until = Instant::now() + MINUTES;
        while !has_it().await {
            assert!(Instant::now() < until, "{kind} is not used");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn status_is_called_where_plugins_support_it() {
    let node = TestNode::new();
    let flag = node.path("up");
    let report = r#"echo '{"code":50,"msg":"agent is down"}'; exit 1"#;
    let body =
        format!("if [ $CNI_COMMAND = STATUS ] && [ ! -e {} ]; then {report}; fi", flag.display());
    node.plugin("a", &body);
    node.list("10-pods.conflist", "1.1.0", &["a"]);
    let network = node.network();
    network.ensure_configured().await.unwrap();
    assert!(network.status().message.contains("agent is down (code 50)"));
    fs::write(flag, "").unwrap();
    // After any change in the configuration directory, dockbridge calls STATUS again.
    fs::write(node.path("conf/note"), "").unwrap();
    wait_for(&network, true).await;
}

#[tokio::test]
async fn a_network_that_needs_pod_cidrs_waits_for_them() {
    let node = TestNode::new();
    node.plugin("a", ANSWER);
    let plugins = json!([{"type": "a", "capabilities": {"ipRanges": true}}]);
    let text = json!({"name": "pods", "cniVersion": "1.0.0", "plugins": plugins});
    node.conf("10-pods.conflist", &text);
    let network = node.network();
    network.ensure_configured().await.unwrap();
    assert_eq!(network.status().reason, "PodCIDRUnknown");
    network.set_pod_cidrs(vec!["fd00::/64".to_owned(), "10.9.0.0/24".to_owned()]);
    assert!(network.status().ready);
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    network.attach(&cni).await.unwrap();
    assert_eq!(
        node.input("a", "ADD")["runtimeConfig"]["ipRanges"],
        json!([[{"subnet": "fd00::/64"}], [{"subnet": "10.9.0.0/24"}]])
    );
    assert_eq!(
        network.attachment_from_cache(cni.pod.clone()).await.unwrap().unwrap().cni(),
        Some(&cni)
    );
}

#[tokio::test]
async fn del_works_without_namespace_configuration_and_result() {
    let node = usual();
    let network = node.network();
    let cni = network.prepare(node.pod('a')).await.unwrap();
    drop(network);
    fs::remove_dir_all(node.path("conf")).unwrap();
    // There is no pinned namespace, as after a reboot, no cached result, and no configuration directory.
    let network = node.network();
    network.detach(&cni).await.unwrap();
    network.detach(&cni).await.unwrap();
    assert_eq!(node.calls(), ["b DEL", "a DEL", "b DEL", "a DEL"]);
    assert!(node.environment("a", "DEL").contains("CNI_NETNS=\n"));
    assert!(node.environment("a", "DEL").contains("K8S_POD_NAME=web"));
}

#[tokio::test]
async fn del_gets_no_malformed_result() {
    let node = usual();
    node.plugin("b", r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"hello"}]}'"#);
    let network = node.network();
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    network.attach(&cni).await.unwrap_err();
    network.detach(&cni).await.unwrap();
    assert_eq!(node.input("a", "DEL").get("prevResult"), None);
}

#[tokio::test]
async fn del_gets_the_arguments_of_add() {
    let node = TestNode::new();
    node.plugin("a", ANSWER);
    let wanted = json!({"bandwidth": true, "portMappings": true});
    let plugins = json!([{"type": "a", "capabilities": wanted}]);
    let text = json!({"name": "pods", "cniVersion": "1.0.0", "plugins": plugins});
    node.conf("10-pods.conflist", &text);
    let network = node.network();
    let mut pod = node.pod('a');
    let rate = ("kubernetes.io/ingress-bandwidth".to_owned(), "1M".to_owned());
    pod.annotations.extend([rate]);
    pod.ports = vec![PortMapping { container_port: 80, host_port: 8080, ..PortMapping::default() }];
    let cni = network.prepare(pod).await.unwrap();
    network.detach(&cni).await.unwrap();
    assert_eq!(
        node.input("a", "DEL")["runtimeConfig"],
        json!({
            "bandwidth": {"ingressRate": 1_000_000, "ingressBurst": 2_147_483_647},
            "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
        })
    );
}

#[tokio::test]
async fn a_failed_del_keeps_the_cached_result_and_can_be_repeated() {
    let node = usual();
    let network = node.network();
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    network.attach(&cni).await.unwrap();
    node.plugin("a", "exit 1");
    node.plugin("b", "exit 2");
    node.forget_calls();
    let error = network.detach(&cni).await.unwrap_err();
    assert!(error.to_string().contains("network plugin b, DEL: exit code 2"), "{error}");
    assert_eq!(node.calls(), ["b DEL"]);
    assert!(cached(&node, &cni).exists());
    node.plugin("b", "");
    let error = network.detach(&cni).await.unwrap_err();
    assert!(error.to_string().contains("network plugin a, DEL: exit code 1"), "{error}");
    assert_eq!(node.calls(), ["b DEL", "b DEL", "a DEL"]);
    node.plugin("a", "");
    network.detach(&cni).await.unwrap();
    assert!(!cached(&node, &cni).exists());
}

/// The plugin Multus writes the path of the network namespace into its errors, and its message about the missing socket
/// of its agent looks like a message about a missing namespace.
#[tokio::test]
async fn a_failed_del_is_a_failure_while_the_namespace_exists_whatever_the_plugin_says() {
    let node = usual();
    let network = node.network();
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    network.attach(&cni).await.unwrap();
    for said in [
        r#"echo "{\"code\":999,\"msg\":\"netns $CNI_NETNS: dial unix /run/agent.sock: no such file or directory\"}"; exit 1"#,
        r#"echo "failed to Statfs \"$CNI_NETNS\": no such file or directory" >&2; exit 1"#,
    ] {
        node.plugin("a", said);
        let error = network.detach(&cni).await.unwrap_err();
        assert!(error.to_string().contains("no such file or directory"), "{error}");
        assert!(cached(&node, &cni).exists());
    }
    node.plugin("a", "");
    network.detach(&cni).await.unwrap();
}

/// A plugin whose DEL always needs the namespace must not prevent the removal of the pod.
#[tokio::test]
async fn a_failed_del_is_repeated_later_once_the_namespace_is_gone() {
    for said in [r#"echo '{"code":999,"msg":"no agent"}'; exit 1"#, "exit 3"] {
        let node = usual();
        let network = node.network();
        // There is no cached result, as after a crash during ADD.
        let cni = network.prepare(node.pod('a')).await.unwrap();
        node.plugin("a", said);
        network.detach(&cni).await.unwrap();
        network.release_stale(&[]).await.unwrap_err();
        node.plugin("a", "");
        node.forget_calls();
        network.release_stale(&[]).await.unwrap();
        assert_eq!(node.calls(), ["b DEL", "a DEL"]);
        assert!(node.environment("a", "DEL").contains("K8S_POD_NAME=web"));
        assert_eq!(node.input("a", "DEL").get("prevResult"), None);
        network.release_stale(&[]).await.unwrap();
        assert_eq!(node.calls().len(), 2, "released once");
    }
}

#[tokio::test]
async fn a_namespace_that_goes_during_del_is_gone() {
    let node = usual();
    let network = node.network();
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    network.attach(&cni).await.unwrap();
    node.plugin("a", r#"umount "$CNI_NETNS"; rm "$CNI_NETNS"; exit 1"#);
    network.detach(&cni).await.unwrap();
    assert!(cached(&node, &cni).exists(), "kept for the next release");
}

/// dockbridge assumes that a plugin that is missing, hangs, is killed or asks for a later retry has not released the
/// pod's address.
#[tokio::test]
async fn a_del_that_was_not_done_is_a_failure_also_without_a_namespace() {
    let node = usual();
    let network = Network::start(node.live(), MINUTES);
    let cni = network.prepare(node.pod('a')).await.unwrap();
    for said in [r#"echo '{"code":11,"msg":"later"}'; exit 1"#, "kill -KILL $$"] {
        node.plugin("a", said);
        network.detach(&cni).await.unwrap_err();
    }
    node.plugin("a", "sleep 600");
    node.forget_calls();
    let (detached, ()) = tokio::join!(network.detach(&cni), async {
        called(&node, &["b DEL", "a DEL"]).await;
        forward(MINUTES).await;
    });
    detached.unwrap_err();
    fs::remove_file(node.path("bin/a")).unwrap();
    network.detach(&cni).await.unwrap_err();
}

#[tokio::test]
async fn a_result_without_address_is_a_failure_that_del_can_undo() {
    let node = TestNode::new();
    node.plugin("a", r#"echo '{"cniVersion":"1.0.0","ips":[]}'"#);
    node.list("10-pods.conflist", "1.0.0", &["a"]);
    let network = node.network();
    let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
    let error = network.attach(&cni).await.unwrap_err();
    assert!(error.to_string().starts_with("the result of the plugins of network"), "{error}");
    let found = network.attachment_from_cache(cni.pod.clone()).await.unwrap().unwrap();
    assert_eq!(found, Attachment::Adding(cni.clone()));
    network.detach(&cni).await.unwrap();
    assert_eq!(node.input("a", "DEL")["prevResult"]["ips"], json!([]));
}

#[tokio::test]
async fn plugins_never_run_in_the_hosts_namespace() {
    let node = usual();
    let network = node.network();
    let mut pod = node.pod('a');
    let missing = network.prepare(pod.clone()).await.unwrap();
    let error = network.attach(&missing).await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    assert!(error.to_string().contains("no namespace is pinned at the path"), "{error}");
    pod.netns = "/proc/self/ns/net".into();
    let cni = network.prepare(pod).await.unwrap();
    let error = network.attach(&cni).await.unwrap_err();
    assert!(error.to_string().contains("the namespace is the host's"), "{error}");
    network.detach(&cni).await.unwrap();
    assert!(node.environment("a", "DEL").contains("CNI_NETNS=\n"));
    assert_eq!(node.calls(), ["b DEL", "a DEL"]);
}

#[tokio::test]
async fn lost_pods_are_released_and_live_ones_are_not() {
    let node = TestNode::new();
    node.plugin("a", ANSWER);
    node.list("10-pods.conflist", "1.1.0", &["a"]);
    let network = node.network();
    let Some((lost, lost_pin)) = prepare_pinned(&network, node.pod('a')).await else { return };
    let Some((kept, _kept_pin)) = prepare_pinned(&network, node.pod('b')).await else { return };
    network.attach(&lost).await.unwrap();
    network.attach(&kept).await.unwrap();
    drop(lost_pin);
    network.release_stale(std::slice::from_ref(&kept)).await.unwrap();
    assert!(!cached(&node, &lost).exists());
    assert!(cached(&node, &kept).exists());
    let deleted = node.environment("a", "DEL");
    assert!(deleted.contains(&format!("CNI_CONTAINERID={}\n", lost.pod.id)));
    assert!(deleted.contains("K8S_POD_NAMESPACE=shop"));
}

#[tokio::test]
async fn a_pod_with_unquotable_arguments_is_refused_first() {
    let node = usual();
    let network = node.network();
    let mut pod = node.pod('a');
    pod.metadata.name = "a;K8S_POD_NAMESPACE=kube-system".to_owned();
    assert_eq!(network.prepare(pod).await.unwrap_err().kind(), Kind::InvalidArgument);
    let mut pod = node.pod('a');
    pod.annotations.insert("kubernetes.io/egress-bandwidth".to_owned(), "1".to_owned());
    assert_eq!(network.prepare(pod).await.unwrap_err().kind(), Kind::InvalidArgument);
}

#[tokio::test]
async fn a_hanging_plugin_is_killed_at_the_deadline() {
    let node = usual();
    let network = Network::start(node.live(), MINUTES);
    let cni = network.prepare(node.pod('a')).await.unwrap();
    node.plugin("b", "sleep 600");
    let (detached, ()) = tokio::join!(network.detach(&cni), async {
        called(&node, &["b DEL"]).await;
        forward(MINUTES / 2).await;
    });
    assert_eq!(detached.unwrap_err().kind(), Kind::DeadlineExceeded);
    assert_eq!(node.calls(), ["b DEL", "a DEL"]);
}

#[tokio::test]
async fn a_pod_of_another_shim_is_found_and_released() {
    let node = usual();
    let network = node.network();
    let text = include_str!("../../../tests/fixtures/network/cached-by-libcni.json");
    let text = text.replace(
        "4f0d8b1c5a7e4d2f9b6c3a1e8d7f6b5c4a3e2d1f0c9b8a7e6d5c4b3a2f1e0d9c",
        &"c".repeat(64),
    );
    let mut cached: serde_json::Value = serde_json::from_str(&text).unwrap();
    cached["capabilityArgs"] =
        json!({ "portMappings": [{ "hostPort": 18080, "containerPort": 80 }] });
    let text = cached.to_string();
    let pod = node.pod('c');
    let path = node.path("cache/results").join(format!("pods-{}-eth0", pod.id));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    crate::host::file::replace(&path, text.as_bytes(), Durability::Written).unwrap();
    // cri-dockerd first brings up `lo` with a separate CNI network. The cached result of this network has the interface
    // name `eth0`, like the result of the pod's network.
    let loopback = json!({
        "kind": "cniCacheV1", "containerId": pod.id, "ifName": "eth0", "networkName": "cni-loopback",
        "config": "eyJjbmlWZXJzaW9uIjoiMC4yLjAiLCJuYW1lIjoiY25pLWxvb3BiYWNrIiwicGx1Z2lucyI6W3sidHlwZSI6Imxvb3BiYWNrIn1dfQ==",
        "result": { "cniVersion": "0.2.0", "ip4": { "ip": "127.0.0.1/8" }, "dns": {} },
    });
    let second = node.path("cache/results").join(format!("cni-loopback-{}-eth0", pod.id));
    fs::write(&second, loopback.to_string()).unwrap();
    let found = network.attachment_from_cache(pod).await.unwrap().unwrap();
    assert_eq!(found.addresses(), ["10.99.0.2".parse::<IpAddr>().unwrap()]);
    let cni = found.cni().unwrap();
    assert!(cni.config.contains("host-local"));
    node.plugin("bridge", "");
    node.plugin("portmap", "");
    network.detach(cni).await.unwrap();
    assert_eq!(node.calls(), ["portmap DEL", "bridge DEL"]);
    assert_eq!(node.input("bridge", "DEL")["prevResult"]["ips"][0]["address"], "10.99.0.2/24");
    let found = &node.input("portmap", "DEL")["runtimeConfig"]["portMappings"];
    assert_eq!(found[0]["hostPort"], 18080, "as in the cached result, not as in the pod");
    assert!(!path.exists() && !second.exists());
}
