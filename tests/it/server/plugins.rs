//! Tests of NRI plugins: the calls that plugins get and the order of the calls, pods and containers that plugins
//! refuse or change, and plugins that fail.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use dockbridge::{
    config::settings::NriSettings,
    model::network::NetworkMode,
    wire::{
        cri::{self, ContainerEventType as Kind},
        nri,
    },
};
use futures_util::FutureExt as _;
use prost::Message;
use tokio::sync::Notify;
use tonic::Code;

use super::networks::{ANSWER, NetnsThread, script};
use crate::clock::forward;
use crate::support::{
    bridge::{Bridge, LONG, Node, TIMEOUT, container, docker, pod},
    fake_dockerd::server::FakeDockerd,
    nri_plugin::{Plugin, Reply, Told, adjusts},
};

/// A dockbridge server with NRI.
pub(super) async fn start(docker: &FakeDockerd, required: &[&str]) -> (Bridge, PathBuf) {
    start_within(docker, required, LONG).await
}

/// A server with NRI, a pod, a container, and a plugin that has answered the calls of their creation. Also returns
/// the ids of the pod and the container.
pub(super) async fn with_container(docker: &FakeDockerd) -> (Bridge, Plugin, [String; 2]) {
    let (bridge, socket) = start(docker, &[]).await;
    let plugin = Plugin::logger(&socket).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    (bridge, plugin, [id, main])
}

/// A server with NRI whose plugins must answer within this time.
pub(super) async fn start_within(
    docker: &FakeDockerd,
    required: &[&str],
    request_timeout: Duration,
) -> (Bridge, PathBuf) {
    let mut node = Node::new();
    node.nri = settings(&node, required, request_timeout);
    let socket = node.nri.socket.clone();
    (Bridge::start_on(node, docker, NetworkMode::Docker).await, socket)
}

/// NRI settings whose paths are below the directory of a node.
pub(super) fn settings(node: &Node, required: &[&str], request_timeout: Duration) -> NriSettings {
    NriSettings {
        enabled: true,
        socket: node.path("nri/nri.sock"),
        plugin_dir: node.path("plugins"),
        config_dir: node.path("plugins.d"),
        registration_timeout: LONG,
        request_timeout,
        required: required.iter().map(|&name| name.to_owned()).collect(),
    }
}

#[tokio::test]
async fn a_pods_life_is_told_in_order() {
    let docker = docker().await;
    let (bridge, plugin, [id, main]) = with_container(&docker).await;
    bridge.start_container(&main).await.unwrap();
    bridge.stop_container(&main, 1).await.unwrap();
    bridge.stop_container(&main, 1).await.unwrap();
    bridge.remove_container(&main).await.unwrap();
    bridge.stop_pod(&id).await.unwrap();
    bridge.stop_pod(&id).await.unwrap();
    bridge.remove_pod(&id).await.unwrap();
    let expected = [
        "Configure",
        "Synchronize",
        "RunPodSandbox",
        "CreateContainer",
        "ValidateContainerAdjustment",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "StopContainer",
        "RemoveContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ];
    assert_eq!(plugin.methods(), expected);
    let told = plugin.told.lock().unwrap().clone();
    assert!(told[2..].iter().all(|told| told.pod == "p"));
    let of_container = told.iter().filter(|told| told.method.ends_with("Container"));
    assert!(of_container.clone().all(|told| told.container == "main" && told.id == main));
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn an_end_without_a_call_is_told() {
    let docker = docker().await;
    let (bridge, plugin, [_, main]) = with_container(&docker).await;
    bridge.start_container(&main).await.unwrap();
    docker.world(|world| world.exit(&main, 1));
    plugin.until("StopContainer").await;
    docker.world(|world| world.remove(&main));
    plugin.until("RemoveContainer").await;
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_refused_pod_leaves_nothing_and_may_be_tried_again() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let plugin = Plugin::guard(&socket, "RunPodSandbox").await;
    let refused = bridge.run(&pod("p")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unknown);
    let text = "NRI plugin 10-guard, RunPodSandbox: not today";
    assert!(refused.message().contains(text), "{refused}");
    bridge.assert_clean(&docker).await;
    assert_eq!(plugin.methods()[2..], ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
    bridge.run(&pod("p")).await.unwrap();
    bridge.clear(&docker).await;
}

/// If dockbridge is killed while it releases the network of a refused pod, the restarted dockbridge must not
/// show the pod as ready.
#[tokio::test]
async fn a_refused_pod_is_not_connected_on_disk_while_its_network_is_released() {
    let Some(netns_thread) = NetnsThread::new() else { return };
    let docker = docker().await;
    docker.world(|world| world.pid = netns_thread.tid);
    let mut node = Node::new();
    node.nri = settings(&node, &[], LONG);
    node.network("fake");
    let (state, seen) = (node.path("state"), node.path("seen"));
    script(&node, ANSWER, &format!("cp -r {}/sandboxes {}", state.display(), seen.display()));
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    let _guard = Plugin::guard(&bridge.node().nri.socket, "RunPodSandbox").await;
    bridge.run(&pod("p")).await.unwrap_err();
    let checkpoints: Vec<String> = fs::read_dir(seen)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let [checkpoint] = &checkpoints[..] else { panic!("{checkpoints:?}") };
    assert!(checkpoint.contains(r#""state":"adding""#), "{checkpoint}");
    bridge.assert_clean(&docker).await;
    bridge.run(&pod("p")).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_refused_container_leaves_nothing_and_may_be_tried_again() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let plugin = Plugin::guard(&socket, "CreateContainer").await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let refused = bridge.create(&id, &container("main"), &pod("p")).await.unwrap_err();
    assert!(refused.message().contains(", CreateContainer: not today"), "{refused}");
    assert!(bridge.containers().await.unwrap().is_empty());
    assert!(!plugin.methods().contains(&"StartContainer".to_owned()));
    bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_plugin_that_connects_late_is_told_what_there_is() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    let plugin = Plugin::logger(&socket).await;
    bridge.start_container(&main).await.unwrap();
    plugin.until("PostStartContainer").await;
    plugin.forget();
    bridge.remove_pod(&id).await.unwrap();
    let expected = ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"];
    assert_eq!(plugin.methods(), expected);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_plugin_that_does_not_answer_is_dropped_and_may_come_back() {
    let docker = docker().await;
    let (bridge, socket) = start_within(&docker, &[], TIMEOUT).await;
    let silent = |told: &Told| match told.method.as_str() {
        "RunPodSandbox" => Reply::Silence,
        _ => Reply::Yes(Vec::new()),
    };
    let plugin = Plugin::synchronised(&socket, ("10", "silent"), silent).await;
    let config = pod("p");
    let (id, ()) = tokio::join!(bridge.run(&config), async {
        plugin.until("RunPodSandbox").await;
        forward(TIMEOUT).await;
    });
    let id = id.unwrap();
    plugin.ended.await.unwrap();
    let plugin = Plugin::logger(&socket).await;
    bridge.remove_pod(&id).await.unwrap();
    plugin.until("RemovePodSandbox").await;
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn nobody_sees_what_plugins_are_asked_about() {
    let docker = docker().await;
    let (bridge, socket) = start_within(&docker, &[], LONG).await;
    let permitted = Arc::new(Notify::new());
    let held = Arc::clone(&permitted);
    let reply = move |told: &Told| match told.method.as_str() {
        "RunPodSandbox" | "CreateContainer" => Reply::Held(Arc::clone(&held)),
        _ => Reply::Yes(Vec::new()),
    };
    let plugin = Plugin::synchronised(&socket, ("10", "slow"), reply).await;
    let mut runtime = bridge.runtime.clone();
    let events = runtime.get_container_events(cri::GetEventsRequest {}).await;
    let mut events = events.unwrap().into_inner();

    let config = pod("p");
    let (run, ()) = tokio::join!(bridge.run(&config), async {
        plugin.until("RunPodSandbox").await;
        assert!(bridge.pods().await.unwrap().is_empty());
        let request = cri::ListPodSandboxStatsRequest::default();
        let stats = bridge.runtime.clone().list_pod_sandbox_stats(request).await.unwrap();
        assert!(stats.into_inner().stats.is_empty());
        assert!(events.message().now_or_never().is_none(), "an event of a hidden pod");
        permitted.notify_one();
    });
    let id = run.unwrap();
    for kind in [Kind::ContainerCreatedEvent, Kind::ContainerStartedEvent] {
        let event = events.message().await.unwrap().unwrap();
        assert_eq!((event.container_id.as_str(), event.container_event_type()), (&*id, kind));
    }

    let main = container("main");
    let (create, ()) = tokio::join!(bridge.create(&id, &main, &config), async {
        plugin.until("CreateContainer").await;
        assert!(bridge.containers().await.unwrap().is_empty());
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.clone(), verbose: false };
        let status = bridge.runtime.clone().pod_sandbox_status(request).await.unwrap();
        assert!(status.into_inner().containers_statuses.is_empty());
        assert!(events.message().now_or_never().is_none(), "an event of a hidden container");
        permitted.notify_one();
    });
    let event = events.message().await.unwrap().unwrap();
    assert_eq!(event.container_event_type(), Kind::ContainerCreatedEvent);
    assert_eq!(event.container_id, create.unwrap());
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn without_a_required_plugin_there_is_no_pod() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &["10-logger", "quota"]).await;
    let refused = bridge.run(&pod("p")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("not connected: 10-logger, quota"), "{refused}");
    let _logger = Plugin::logger(&socket).await;
    let _quota = Plugin::synchronised(&socket, ("20", "quota"), |_| Reply::Yes(Vec::new())).await;
    let until = Instant::now() + LONG;
    while let Err(refused) = bridge.run(&pod("p")).await {
        assert!(Instant::now() < until, "{refused}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bridge.clear(&docker).await;
}

pub(super) fn resources(shares: u64) -> nri::LinuxResources {
    let shares = Some(nri::OptionalUInt64 { value: shares });
    nri::LinuxResources {
        cpu: Some(nri::LinuxCpu { shares, ..Default::default() }),
        ..Default::default()
    }
}

pub(super) fn of_shares(shares: u64) -> nri::ContainerAdjustment {
    let resources = Some(resources(shares));
    let linux = nri::LinuxContainerAdjustment { resources, ..Default::default() };
    nri::ContainerAdjustment { linux: Some(linux), ..Default::default() }
}

/// Creates a container that is refused because of these plugins, checks that nothing of the container is left, and
/// returns the error message.
pub(super) async fn refused(
    plugins: Vec<(&str, &str, Box<dyn Fn(&Told) -> Reply + Send>)>,
) -> String {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let mut connected = Vec::new();
    for (index, name, reply) in plugins {
        let plugin = Plugin::synchronised(&socket, (index, name), reply).await;
        connected.push(plugin);
    }
    let id = bridge.run(&pod("p")).await.unwrap();
    let refused = bridge.create(&id, &container("main"), &pod("p")).await.unwrap_err();
    assert!(bridge.containers().await.unwrap().is_empty());
    bridge.clear(&docker).await;
    refused.message().to_owned()
}

#[tokio::test]
async fn two_plugins_cannot_set_the_same() {
    let one = Box::new(adjusts(of_shares(512)));
    let other = Box::new(adjusts(of_shares(256)));
    let text = refused(vec![("10", "one", one), ("20", "other", other)]).await;
    assert!(text.contains("10-one") && text.contains("20-other"), "{text}");
    assert!(text.contains("linux.resources.cpu.shares"), "{text}");
}

#[tokio::test]
async fn what_only_our_runtime_can_do_is_refused_without_it() {
    let variable = nri::KeyValue { key: "A".to_owned(), value: "b".to_owned() };
    let adjust = nri::ContainerAdjustment { env: vec![variable], ..Default::default() };
    let text = refused(vec![("10", "env", Box::new(adjusts(adjust)))]).await;
    assert!(text.contains("NRI plugin 10-env: env[A]"), "{text}");
}

#[tokio::test]
async fn a_validator_may_reject_what_all_want() {
    let verdict = nri::ValidateContainerAdjustmentResponse {
        reject: true,
        reason: "too many shares".to_owned(),
    };
    let reject = move |told: &Told| match told.method.as_str() {
        "ValidateContainerAdjustment" => Reply::Yes(verdict.encode_to_vec()),
        _ => Reply::Yes(Vec::new()),
    };
    let shares = Box::new(adjusts(of_shares(512)));
    let text = refused(vec![("10", "shares", shares), ("90", "guard", Box::new(reject))]).await;
    assert!(text.contains("90-guard, ValidateContainerAdjustment: too many shares"), "{text}");
}

#[tokio::test]
async fn plugins_change_limits_in_answers_and_by_themselves() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let reply = adjusts(of_shares(512));
    let mut plugin = Plugin::synchronised(&socket, ("10", "shares"), reply).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    let shares = |docker: &FakeDockerd| -> Vec<serde_json::Value> {
        let updates = docker.matching("POST /containers/*/update");
        updates.iter().map(|update| update.json()["CpuShares"].clone()).collect()
    };
    assert_eq!(shares(&docker), [512]);
    let update = nri::ContainerUpdate {
        container_id: main.clone(),
        linux: Some(nri::LinuxContainerUpdate { resources: Some(resources(256)) }),
        ignore_failure: false,
    };
    let asked = nri::UpdateContainersRequest { update: vec![update], evict: Vec::new() };
    let answer = plugin.ask("UpdateContainers", &asked).await;
    assert_eq!(answer, Vec::<u8>::new(), "none failed");
    assert_eq!(shares(&docker), [512, 256]);
    assert!(!plugin.methods().contains(&"UpdateContainer".to_owned()));
    bridge.start_container(&main).await.unwrap();
    let eviction =
        nri::ContainerEviction { container_id: main.clone(), reason: "too greedy".to_owned() };
    let asked = nri::UpdateContainersRequest { update: Vec::new(), evict: vec![eviction] };
    plugin.ask("UpdateContainers", &asked).await;
    plugin.until("StopContainer").await;
    bridge.clear(&docker).await;
}
