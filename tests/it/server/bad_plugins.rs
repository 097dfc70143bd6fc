//! NRI plugins that misbehave. dockbridge keeps working, and limits the time and memory that the plugins cost.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use dockbridge::{
    model::network::NetworkMode,
    wire::{cri, nri},
};
use prost::Message;
use tokio::{net::UnixStream, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::plugins::{refused, resources, settings, start, start_within};
use crate::clock::forward;
use crate::support::{
    bridge::{Bridge, LONG, Node, TIMEOUT, container, docker, pod},
    clock::{PAUSE, hurry},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::eventually,
    },
    nri_plugin::{Plugin, Reply, Told, adjusts},
};

/// A plugin that answers `method` as given, and all other methods with an empty answer.
fn answers(
    method: &'static str,
    answer: &impl Message,
) -> Box<dyn Fn(&Told) -> Reply + Send + 'static> {
    let answer = answer.encode_to_vec();
    Box::new(move |told| Reply::Yes(if told.method == method { answer.clone() } else { vec![] }))
}

fn update(container: &str, shares: u64) -> nri::ContainerUpdate {
    nri::ContainerUpdate {
        container_id: container.to_owned(),
        linux: Some(nri::LinuxContainerUpdate { resources: Some(resources(shares)) }),
        ignore_failure: false,
    }
}

#[tokio::test]
async fn more_changes_than_a_container_can_have_are_refused() {
    let variable = |at: usize| nri::KeyValue { key: at.to_string(), value: String::new() };
    let env = (0..5000).map(variable).collect();
    let adjust = nri::ContainerAdjustment { env, ..Default::default() };
    let text = refused(vec![("10", "many", Box::new(adjusts(adjust)))]).await;
    assert!(text.contains("NRI plugin 10-many asks for 5000 changes"), "{text}");
}

#[tokio::test]
async fn a_score_out_of_range_is_refused() {
    let oom_score_adj = Some(nri::OptionalInt { value: i64::MIN });
    let linux = nri::LinuxContainerAdjustment { oom_score_adj, ..Default::default() };
    let adjust = nri::ContainerAdjustment { linux: Some(linux), ..Default::default() };
    let text = refused(vec![("10", "score", Box::new(adjusts(adjust)))]).await;
    assert!(text.contains("oom_score_adj"), "{text}");
}

#[tokio::test]
async fn an_update_of_the_container_that_is_made_is_refused() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let reply = |told: &Told| {
        let update = vec![update(&told.id, 512)];
        let answer = nri::CreateContainerResponse { update, ..Default::default() };
        let is_it = told.method == "CreateContainer";
        Reply::Yes(if is_it { answer.encode_to_vec() } else { Vec::new() })
    };
    let _plugin = Plugin::synchronised(&socket, ("10", "odd"), reply).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let refused = bridge.create(&id, &container("main"), &pod("p")).await.unwrap_err();
    assert!(refused.message().contains("must send an adjustment"), "{refused}");
    assert!(bridge.containers().await.unwrap().is_empty());
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn an_update_that_is_asked_for_often_is_made_once() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let mut plugin = Plugin::logger(&socket).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    let update = vec![update(&main, 256); 1000];
    plugin
        .ask("UpdateContainers", &nri::UpdateContainersRequest { update, evict: Vec::new() })
        .await;
    assert_eq!(docker.matching("POST /containers/*/update").len(), 1);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_plugin_may_ask_while_it_is_asked() {
    let docker = docker().await;
    let (bridge, socket) = start_within(&docker, &[], TIMEOUT).await;
    let silent = |told: &Told| match told.method.as_str() {
        "CreateContainer" => Reply::Silence,
        _ => Reply::Yes(Vec::new()),
    };
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    bridge.start_container(&main).await.unwrap();
    let mut plugin = Plugin::synchronised(&socket, ("10", "silent"), silent).await;
    let (other, config) = (container("other"), pod("p"));
    let (made, ()) = tokio::join!(bridge.create(&id, &other, &config), async {
        plugin.until("CreateContainer").await;
        let reason = "no room".to_owned();
        let evict = vec![nri::ContainerEviction { container_id: main.clone(), reason }];
        let asked = nri::UpdateContainersRequest { update: vec![update(&main, 256)], evict };
        plugin.ask("UpdateContainers", &asked).await;
        assert!(!plugin.ended.is_finished(), "it was answered after it was dropped");
        forward(TIMEOUT).await;
    });
    made.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn connections_that_never_register_hold_up_nobody() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let _logger = Plugin::logger(&socket).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(UnixStream::connect(&socket).await.unwrap());
    }
    let id = timeout(LONG, bridge.run(&pod("p"))).await.unwrap().unwrap();
    let late = Plugin::connect(&socket, ("20", "late"), |_| Reply::Yes(Vec::new()));
    let (late, ()) = tokio::join!(late, async { drop(idle) });
    late.until("Synchronize").await;
    bridge.remove_pod(&id).await.unwrap();
    bridge.clear(&docker).await;
}

/// If ten NRI plugins hang at Synchronize, RunPodSandbox waits for the timeouts of fewer than five of them.
#[tokio::test]
async fn plugins_that_hang_at_first_hold_up_a_pod_once() {
    let docker = docker().await;
    let mut node = Node::new();
    node.nri = settings(&node, &[], TIMEOUT);
    node.nri.registration_timeout = TIMEOUT;
    let socket = node.nri.socket.clone();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    let mut silent = Vec::new();
    for _ in 0..10 {
        let reply = |told: &Told| match told.method.as_str() {
            "Synchronize" => Reply::Silence,
            _ => Reply::Yes(Vec::new()),
        };
        silent.push(Plugin::connect(&socket, ("10", "silent"), reply).await);
    }
    silent[0].until("Synchronize").await;
    let config = pod("p");
    let id = hurry(PAUSE, Duration::from_secs(1), bridge.run(&config)).await.unwrap();
    let waiting = silent.iter().filter(|plugin| !plugin.ended.is_finished()).count();
    assert!(waiting > 5, "the pod waited for all but {waiting} plugins");
    drop(silent);
    bridge.remove_pod(&id).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_hanging_plugin_does_not_hold_up_the_end() {
    let docker = docker().await;
    let (bridge, socket) = start_within(&docker, &[], LONG * 10).await;
    let silent = |told: &Told| match told.method.as_str() {
        "RunPodSandbox" | "Shutdown" => Reply::Silence,
        _ => Reply::Yes(Vec::new()),
    };
    let plugin = Plugin::synchronised(&socket, ("10", "silent"), silent).await;
    let mut runtime = bridge.runtime.clone();
    let request = cri::RunPodSandboxRequest { config: Some(pod("p")), ..Default::default() };
    let running = tokio::spawn(async move { runtime.run_pod_sandbox(request).await });
    plugin.until("RunPodSandbox").await;
    timeout(LONG, bridge.stop()).await.expect("it does not end");
    let _ = running.await.unwrap();
}

#[tokio::test]
async fn a_socket_that_was_removed_is_made_again() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let first = Plugin::logger(&socket).await;
    fs::remove_file(&socket).unwrap();
    let second = timeout(LONG, Plugin::logger(&socket)).await.expect("there is no socket");
    let id = bridge.run(&pod("p")).await.unwrap();
    for plugin in [first, second] {
        assert!(plugin.methods().contains(&"RunPodSandbox".to_owned()));
    }
    bridge.remove_pod(&id).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_container_that_is_too_long_to_tell_keeps_no_plugin_away() {
    let docker = docker().await;
    let mut node = Node::new();
    node.nri = settings(&node, &[], LONG);
    let socket = node.nri.socket.clone();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let mut long = container("long");
    long.envs = vec![cri::KeyValue { key: "A".to_owned(), value: b"x".repeat(5 << 20) }];
    bridge.create(&id, &long, &pod("p")).await.unwrap();
    let plugin = Plugin::logger(&socket).await;
    let refused = bridge.create(&id, &long_as("other", &long), &pod("p")).await.unwrap_err();
    assert!(refused.message().contains("more than a message can have"), "{refused}");
    bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    bridge.remove_pod(&id).await.unwrap();
    assert!(plugin.methods().ends_with(&["RemovePodSandbox".to_owned()]));
    bridge.clear(&docker).await;
}

fn long_as(name: &str, long: &cri::ContainerConfig) -> cri::ContainerConfig {
    cri::ContainerConfig { envs: long.envs.clone(), ..container(name) }
}

#[tokio::test]
async fn a_file_in_the_place_of_the_socket_stays() {
    let docker = docker().await;
    let mut node = Node::new();
    node.nri = settings(&node, &[], LONG);
    let path = node.nri.socket.clone();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "mine").unwrap();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    bridge.remove_pod(&id).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    bridge.clear(&docker).await;
}

/// Files in the plugins' directory that are not plugins delay neither pods nor the end of dockbridge.
#[tokio::test]
async fn programs_that_are_no_plugins_are_of_no_harm() {
    let docker = docker().await;
    let mut node = Node::new();
    node.nri = settings(&node, &[], LONG);
    let (directory, marks) = (node.nri.plugin_dir.clone(), node.path("marks"));
    fs::create_dir(&directory).unwrap();
    fs::create_dir(&marks).unwrap();
    fs::create_dir(directory.join("10-directory")).unwrap();
    let fifo = directory.join("11-fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let programs = [
        ("no-index", "true"),
        ("20-ends", "exit 1"),
        ("21-closes", "exec 3>&-; exec sleep 1000"),
        ("22-stays", "trap '' TERM INT HUP; sleep 1000 & sleep 1001"),
        ("23-garbage", "cat /proc/self/exe >&3; exec sleep 1000"),
        ("24-leaves", "sleep 1000 & exit 0"),
    ];
    for (name, body) in programs {
        let mark = marks.join(name);
        let body = format!("#!/bin/sh\necho $$ >>{}\n{body}\n", mark.display());
        fs::write(directory.join(name), body).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.join(name), mode).unwrap();
    }
    fs::write(directory.join("30-no-interpreter"), "#!/nowhere\n").unwrap();
    fs::set_permissions(directory.join("30-no-interpreter"), fs::Permissions::from_mode(0o755))
        .unwrap();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    eventually(|| fs::read_dir(&marks).unwrap().count() == 5).await;
    bridge.remove_pod(&id).await.unwrap();
    let node = timeout(LONG, bridge.stop()).await.expect("it does not end");
    assert!(!marks.join("no-index").exists());
    for entry in fs::read_dir(node.path("marks")).unwrap() {
        for pid in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
            eventually(|| has_ended(pid)).await;
        }
    }
}

/// Whether the plugin's process group has no processes except zombies.
fn has_ended(group: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut states = processes.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    !states.any(|stat| {
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.next() != Some("Z") && fields.nth(1) == Some(group)
    })
}

#[tokio::test]
async fn a_container_is_not_started_without_a_required_plugin() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &["logger"]).await;
    let plugin = Plugin::logger(&socket).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    plugin.ended.abort();
    let _ = plugin.ended.await;
    let refused = bridge.start_container(&main).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let _plugin = Plugin::logger(&socket).await;
    bridge.start_container(&main).await.unwrap();
    bridge.clear(&docker).await;
}

/// The plugin disconnects during the call, so that there is no plugin to ask when Docker has created the pod
/// or the container.
#[tokio::test]
async fn nothing_is_created_if_a_required_plugin_disconnects_meanwhile() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &["logger"]).await;
    for has_pod in [false, true] {
        let plugin = Plugin::logger(&socket).await;
        let id = if has_pod { bridge.run(&pod("p")).await.unwrap() } else { String::new() };
        let held = CancellationToken::new();
        let create = "POST /containers/create";
        docker.inject(Rule::new(create, Fault::Held(held.clone())).times(1));
        docker.forget_requests();
        let (config, main) = (pod("p"), container("main"));
        let call = async {
            if has_pod {
                bridge.create(&id, &main, &config).await
            } else {
                bridge.run(&config).await
            }
        };
        let disconnect = async {
            eventually(|| docker.count(create) == 1).await;
            plugin.ended.abort();
            let _ = plugin.ended.await;
            // dockbridge refuses this pod, because the required plugin is not connected.
            let refused = bridge.run(&pod("other")).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused}");
            held.cancel();
        };
        let (called, ()) = tokio::join!(call, disconnect);
        assert_eq!(called.unwrap_err().code(), Code::Unavailable, "{has_pod}");
        assert_eq!(bridge.containers().await.unwrap().len(), 0);
        bridge.clear(&docker).await;
    }
}

#[tokio::test]
async fn each_plugin_sees_what_those_before_it_made_of_an_update() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    let answer = nri::UpdateContainerResponse { update: vec![update(&main, 512)], evict: vec![] };
    let _first =
        Plugin::synchronised(&socket, ("10", "first"), answers("UpdateContainer", &answer)).await;
    let second = Plugin::synchronised(&socket, ("20", "second"), |_| Reply::Yes(vec![])).await;
    let limits =
        cri::LinuxContainerResources { cpu_shares: 128, cpu_period: 50_000, ..Default::default() };
    let request = cri::UpdateContainerResourcesRequest {
        container_id: main.clone(),
        linux: Some(limits),
        ..Default::default()
    };
    bridge.runtime.clone().update_container_resources(request).await.unwrap();
    let told = second.told.lock().unwrap().clone();
    let told = told.iter().find(|told| told.method == "UpdateContainer").unwrap();
    let request = nri::UpdateContainerRequest::decode(told.payload.as_slice()).unwrap();
    let cpu = request.linux_resources.unwrap().cpu.unwrap();
    assert_eq!(cpu.shares.map(|shares| shares.value), Some(512));
    assert_eq!(cpu.period.map(|period| period.value), Some(50_000));
    bridge.clear(&docker).await;
}
