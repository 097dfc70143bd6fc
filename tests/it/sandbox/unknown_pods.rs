//! dockbridge also releases the network of pods that neither the engine nor a checkpoint file has.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::*;

/// A pod that neither Docker nor a readable checkpoint file has: a pinned namespace, and an entry in CNI's cache.
struct Unknown {
    node: Node,
    id: SandboxId,
    pin: std::path::PathBuf,
    cached: std::path::PathBuf,
}

impl Unknown {
    /// A node with an unknown pod, or `None` if the test is not permitted to create namespaces.
    async fn new() -> Option<Self> {
        let node = Node::with_oci_runtime().await?;
        let id = id('d');
        let pin = node.root.path().join("run/netns").join(id.as_str());
        netns::make(&pin).unwrap();
        let list = json!({ "cniVersion": "0.4.0", "name": "n", "plugins": [{ "type": "quiet" }] });
        let entry = json!({
            "kind": "cniCacheV1", "containerId": id, "ifName": "eth0", "networkName": "n",
            "netns": pin, "config": BASE64_STANDARD.encode(list.to_string()),
            "result": { "cniVersion": "0.4.0" }, "owner": "dockbridge",
        });
        let cached = node.root.path().join(format!("cache/results/n-{id}-eth0"));
        fs::create_dir_all(cached.parent().unwrap()).unwrap();
        fs::write(&cached, entry.to_string()).unwrap();
        Some(Self { node, id, pin, cached })
    }

    /// Makes the CNI plugin also record the namespace of each call, and fail while a file exists. Returns the path
    /// of the file.
    fn moody(&self) -> std::path::PathBuf {
        let busy = self.node.root.path().join("busy");
        let plugin = self.node.root.path().join("bin/quiet");
        let script = fs::read_to_string(&plugin).unwrap();
        let calls = self.node.root.path().join("calls").display().to_string();
        let more = format!("echo $CNI_NETNS >> {calls}\n[ ! -e {} ]\n", busy.display());
        fs::write(&plugin, format!("{script}{more}")).unwrap();
        busy
    }

    fn is_released(&self) -> bool {
        !self.pin.exists() && !self.cached.exists()
    }
}

#[tokio::test]
async fn a_pod_that_nothing_but_its_network_tells_of_is_released_at_the_start() {
    let Some(unknown) = Unknown::new().await else { return };
    let busy = unknown.moody();
    let sandboxes = unknown.node.start().await;
    fs::write(&busy, "").unwrap();
    sandboxes.clean_up().await;
    assert!(unknown.pin.exists() && unknown.cached.exists(), "the next try needs both");
    fs::remove_file(&busy).unwrap();
    sandboxes.reconcile_checkpoints().await;
    assert!(unknown.is_released());
    let pin = unknown.pin.display().to_string();
    assert_eq!(unknown.node.calls(), ["DEL", &pin, "DEL", &pin]);
}

#[tokio::test]
async fn a_pod_that_nothing_but_its_network_tells_of_is_released_by_stop_and_remove() {
    for remove in [false, true] {
        let Some(unknown) = Unknown::new().await else { return };
        let busy = unknown.moody();
        fs::write(&busy, "").unwrap();
        let sandboxes = unknown.node.start().await;
        let end = async || match remove {
            true => sandboxes.remove(unknown.id.as_str()).await,
            false => sandboxes.stop(unknown.id.as_str()).await,
        };
        end().await.unwrap_err();
        assert!(unknown.pin.exists());
        fs::remove_file(&busy).unwrap();
        end().await.unwrap();
        assert!(unknown.is_released());
        end().await.unwrap();
        assert_eq!(unknown.node.calls().iter().filter(|call| *call == "DEL").count(), 2);
    }
}

/// A pod whose network namespace has no pin, as after a reboot, is released by its entry in CNI's cache alone.
#[tokio::test]
async fn an_entry_in_the_cache_alone_is_released() {
    let Some(unknown) = Unknown::new().await else { return };
    netns::unpin(&unknown.pin).unwrap();
    unknown.node.start().await.stop(unknown.id.as_str()).await.unwrap();
    assert!(unknown.is_released());
    assert_eq!(unknown.node.calls(), ["DEL"]);
}

/// A namespace with a process in it is not released, because it can belong to another engine whose dockbridge
/// has the same run directory. The namespace of a pod that the engine has under another name, as after
/// `docker rename`, is not released either.
#[tokio::test]
async fn a_namespace_that_somebody_uses_stays() {
    let Some(unknown) = Unknown::new().await else { return };
    let sandboxes = unknown.node.start().await;
    let net = format!("--net={}", unknown.pin.display());
    let mut user =
        std::process::Command::new("nsenter").args([&net, "sleep", "60"]).spawn().unwrap();
    eventually(|| netns::is_of(user.id(), &unknown.pin)).await;
    sandboxes.clean_up().await;
    sandboxes.stop(unknown.id.as_str()).await.unwrap();
    assert!(netns::is_pinned(&unknown.pin) && unknown.cached.exists());
    user.kill().unwrap();
    user.wait().unwrap();
    unknown.node.docker.world(|world| {
        let id = world.add_container("renamed", json!({}));
        world.container_mut(&id).unwrap().id = unknown.id.to_string();
    });
    sandboxes.clean_up().await;
    assert!(netns::is_pinned(&unknown.pin) && unknown.cached.exists());
    assert!(unknown.node.calls().is_empty());
    netns::unpin(&unknown.pin).unwrap();
}

/// Tests a pod of cri-dockerd that is adopted before the network add-on has written its configuration.
#[tokio::test]
async fn a_pod_that_was_adopted_without_a_network_configuration_is_released_when_there_is_one() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let (conf, aside) = (node.root.path().join("conf"), node.root.path().join("aside"));
    fs::rename(&conf, &aside).unwrap();
    let pod = node.docker.world(|world| {
        let labels = json!({
            "io.kubernetes.docker.type": "podsandbox", "io.kubernetes.pod.name": "web",
            "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "uid",
        });
        let body = json!({ "Labels": labels, "HostConfig": { "NetworkMode": "none" } });
        let id = world.add_container("k8s_POD_web_ns_uid_0", body);
        world.start(&id);
        world.exit(&id, 0);
        id
    });
    let sandboxes = node.start().await;
    let error = sandboxes.stop(&pod).await.unwrap_err();
    assert_eq!(error.kind(), dockbridge::error::Kind::Unavailable, "{error}");
    sandboxes.remove(&pod).await.unwrap_err();
    assert!(node.docker.world(|world| !world.containers.is_empty()));
    fs::rename(&aside, &conf).unwrap();
    sandboxes.stop(&pod).await.unwrap();
    assert_eq!(node.calls(), ["DEL"]);
    sandboxes.remove(&pod).await.unwrap();
    assert_eq!(node.calls(), ["DEL"], "released once");
    assert!(node.docker.world(|world| world.containers.is_empty()));
    assert!(node.keeps_no_checkpoint());
}
