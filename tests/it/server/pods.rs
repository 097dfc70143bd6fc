//! Tests of pods with concurrent calls, changes by other clients of the engine, or a deleted directory.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dockbridge::{
    host::relabel::{SELINUX, relabel},
    model::network::NetworkMode,
    wire::cri::{self, PodSandboxState as State},
};
use prost::Message as _;
use serde_json::{Value, json};

use super::networks::{ANSWER, NetnsThread, leases, script, stage};
use crate::skips::{Lack, skip};
use crate::support::{
    bridge::{Bridge, LONG, Node, container, docker, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
        world::Container,
    },
};

/// A container that Docker cannot kill may still use the network of its pod.
#[tokio::test]
async fn a_container_that_may_still_run_keeps_its_network() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    bridge.start_container(&main).await.unwrap();
    let refused = || Fault::Status(500, "cannot kill the container".to_owned());
    for call in ["POST /containers/*/kill", "DELETE /containers/*"] {
        docker.inject(Rule::new(call, refused()).times(1));
    }
    bridge.stop_pod(&id).await.unwrap_err();
    assert_eq!(leases(&bridge), 1);
    bridge.remove_pod(&id).await.unwrap_err();
    assert_eq!(leases(&bridge), 1);
    bridge.stop_pod(&id).await.unwrap();
    assert_eq!(leases(&bridge), 0);
    bridge.clear(&docker).await;
}

/// A container still belongs to its pod after `docker rename`, also for a dockbridge that starts later. A
/// copy of the container that was started by hand has the same labels, but does not belong to the pod.
#[tokio::test]
async fn a_pod_is_its_containers_whatever_their_names() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    let before = docker.count("GET /containers/*/json");
    let copies = docker.world(|world| {
        let [pause, made] = [&sandbox, &id].map(|id| world.container(id).unwrap().clone());
        world.rename(&id, "quirky_hopper");
        world.rename(&sandbox, "loving_curie");
        // These copies have the labels of the original containers, as after `docker commit` and `docker run`.
        let copy = |of: &Container, host: Value| {
            json!({ "Image": of.body["Image"], "Labels": of.labels, "HostConfig": host })
        };
        let joined = format!("container:{sandbox}");
        let whole = json!({ "NetworkMode": joined, "IpcMode": joined });
        [
            world.add_container(&made.name, copy(&made, whole.clone())),
            world.add_container("debugger", copy(&made, whole)),
            world.add_container(&pause.name, copy(&pause, json!({ "CpuShares": 2 }))),
        ]
    });
    // dockbridge inspects each of the containers because of its event.
    eventually(|| docker.count("GET /containers/*/json") >= before + 5).await;
    shows_only(&bridge, &sandbox, &id).await;
    let bridge = Bridge::start_on(bridge.stop().await, &docker, NetworkMode::Docker).await;
    bridge.until_ready(true).await;
    shows_only(&bridge, &sandbox, &id).await;
    bridge.stop_pod(&sandbox).await.unwrap();
    bridge.remove_pod(&sandbox).await.unwrap();
    let left: Vec<String> =
        docker.world(|world| world.containers.iter().map(|one| one.id.clone()).collect());
    assert_eq!(left, copies);
}

/// The first lists of a restarted dockbridge wait for the inspects of renamed containers: otherwise kubelet would see a
/// pod without a process and without its container, and create both again.
#[tokio::test]
async fn the_first_list_has_what_was_renamed() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    docker.world(|world| {
        world.rename(&sandbox, "loving_curie");
        world.rename(&id, "quirky_hopper");
    });
    let node = bridge.stop().await;
    docker.forget_requests();
    let held = docker.hold("GET /containers/*/json");
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    let lists = async { tokio::join!(bridge.pods(), bridge.containers()) };
    let release = async {
        eventually(|| docker.count("GET /containers/*/json") >= 2).await;
        held.cancel();
    };
    let ((pods, containers), ()) = tokio::join!(lists, release);
    let pods: Vec<_> = pods.unwrap().into_iter().map(|pod| (pod.state(), pod.id)).collect();
    assert_eq!(pods, [(State::SandboxReady, sandbox)]);
    let containers: Vec<_> = containers.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(containers, [id]);
    bridge.clear(&docker).await;
}

/// Waits until dockbridge shows only this pod and only this container.
async fn shows_only(bridge: &Bridge, pod: &str, container: &str) {
    let until = Instant::now() + LONG;
    loop {
        let (pods, containers) = (bridge.pods().await.unwrap(), bridge.containers().await.unwrap());
        let shown: (Vec<String>, Vec<String>) = (
            pods.into_iter().map(|pod| pod.id).collect(),
            containers.into_iter().map(|container| container.id).collect(),
        );
        if shown == (vec![pod.to_owned()], vec![container.to_owned()]) {
            return;
        }
        assert!(Instant::now() < until, "shown are {shown:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// This container was run by hand with the name of a removed pod, from an image that was committed from the
/// pod's pause container.
#[tokio::test]
async fn a_pause_run_by_hand_is_not_adopted() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("p")).await.unwrap();
    let made = docker.world(|world| world.container(&id).unwrap().clone());
    bridge.clear(&docker).await;
    let copy = docker.world(|world| {
        let host = json!({ "NetworkMode": "none", "CpuShares": 2 });
        let body =
            json!({ "Image": made.body["Image"], "Labels": made.labels, "HostConfig": host });
        let copy = world.add_container(&made.name, body);
        world.start(&copy);
        copy
    });
    let bridge = Bridge::start_on(bridge.stop().await, &docker, NetworkMode::Cni).await;
    // In the engine's list, the container has the pod's labels and name. Only the inspect shows that the
    // container is not the pod's pause container.
    let until = Instant::now() + LONG;
    while !bridge.pods().await.unwrap().is_empty() {
        assert!(Instant::now() < until, "it is still shown");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!bridge.node().path(&format!("state/sandboxes/{copy}.json")).exists());
    bridge.stop_pod(&copy).await.unwrap();
    bridge.remove_pod(&copy).await.unwrap();
    let left: Vec<String> =
        docker.world(|world| world.containers.iter().map(|one| one.id.clone()).collect());
    assert_eq!(left, [copy.as_str()]);
    docker.world(|world| world.remove(&copy));
    bridge.assert_clean(&docker).await;
}

/// The calls to CNI plugins for one pod must not overlap.
#[tokio::test]
async fn a_stop_waits_until_a_failed_run_is_cleared_away() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let (host, root) = (bridge.node().path("host"), bridge.node().path("overlap"));
    let at = |name: &str| root.with_file_name(name).display().to_string();
    let add = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 1", at("go"));
    let del = format!(
        "mkdir {busy} || : > {overlap}; sleep 0.5; rmdir {busy}",
        busy = at("busy"),
        overlap = at("overlap"),
    );
    script(bridge.node(), &add, &del);
    let (wish, stopping) = (pod("p"), async {
        eventually(|| fs::read_dir(&host).unwrap().count() == 1).await;
        let id = docker.world(|world| world.containers[0].id.clone());
        let stop = bridge.stop_pod(&id);
        tokio::pin!(stop);
        // After 300 ms, the stop still waits for the pod's lock.
        let waits = tokio::time::timeout(Duration::from_millis(300), &mut stop).await;
        assert!(waits.is_err(), "the pod is being made");
        fs::write(at("go"), "").unwrap();
        stop.await
    });
    let (run, stop) = tokio::join!(bridge.run(&wish), stopping);
    run.unwrap_err();
    stop.unwrap();
    assert!(!Path::new(&at("overlap")).exists(), "two DEL of one pod at a time");
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn a_container_that_was_not_seen_to_run_is_stopped_with_its_pod() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    docker.inject(Rule::new(
        &format!("GET /containers/{id}/json"),
        Fault::Status(500, "not now".to_owned()),
    ));
    docker.inject(Rule::new("GET /containers/json*", Fault::Status(500, "not now".to_owned())));
    bridge.start_container(&id).await.unwrap_err();
    assert_eq!(docker.world(|world| world.container(&id).unwrap().status.clone()), "running");
    bridge.stop_pod(&sandbox).await.unwrap();
    assert_eq!(docker.world(|world| world.container(&id).unwrap().status.clone()), "exited");
    docker.clear_faults();
    bridge.clear(&docker).await;
}

async fn status(bridge: &Bridge, id: &str) -> (cri::PodSandboxStatus, u64) {
    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: true };
    let answer = bridge.runtime.clone().pod_sandbox_status(request).await.unwrap().into_inner();
    let info: serde_json::Value = serde_json::from_str(&answer.info["info"]).unwrap();
    (answer.status.unwrap(), info["pid"].as_u64().unwrap())
}

/// Ends the process of a pod and starts it again, as `docker restart` does.
fn restart(docker: &FakeDockerd, id: &str, pid: u32) {
    docker.world(|world| {
        world.exit(id, 0);
        world.pid = pid;
        world.start(id);
    });
}

fn inode(path: &str) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[tokio::test]
async fn a_pod_whose_process_was_started_anew_is_not_ready() {
    let Some((netns_thread, docker, bridge)) = stage().await else { return };
    let Some(second) = NetnsThread::new() else { return };
    let seen = bridge.node().path("seen").display().to_string();
    script(bridge.node(), ANSWER, &format!("stat -Lc %i $CNI_NETNS > {seen}"));
    let id = bridge.run(&pod("p")).await.unwrap();
    restart(&docker, &id, second.tid);
    let told = async |bridge: &Bridge| loop {
        let (status, pid) = status(bridge, &id).await;
        if pid == u64::from(second.tid) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let shown = told(&bridge).await;
    assert_eq!(shown.state(), State::SandboxNotready);
    assert_eq!(shown.network.unwrap().ip, "");
    // A restarted dockbridge also shows that the pod is not ready, and keeps the pod's namespace for the DEL.
    let node = bridge.stop().await;
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    assert_eq!(told(&bridge).await.state(), State::SandboxNotready);
    bridge.stop_pod(&id).await.unwrap();
    let first = inode(&format!("/proc/{}/ns/net", netns_thread.tid));
    assert_eq!(fs::read_to_string(&seen).unwrap().trim(), first.to_string(), "DEL in another");
    assert_eq!(leases(&bridge), 0);
    bridge.remove_pod(&id).await.unwrap();
    bridge.assert_clean(&docker).await;
}

#[tokio::test]
async fn events_of_a_new_pod_show_it_ready() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let listening = bridge.runtime.clone().get_container_events(cri::GetEventsRequest {}).await;
    let mut told = listening.unwrap().into_inner();
    let slow = format!("sleep 0.3; {ANSWER}");
    script(bridge.node(), &slow, "");
    let id = bridge.run(&pod("p")).await.unwrap();
    for kind in ["CONTAINER_CREATED_EVENT", "CONTAINER_STARTED_EVENT"] {
        let event = told.message().await.unwrap().unwrap();
        assert_eq!(event.container_event_type().as_str_name(), kind);
        assert_eq!(event.container_id, id);
        let shown = cri::PodSandboxStatus::decode(event.pod_sandbox_status).unwrap();
        assert_eq!(shown.state(), State::SandboxReady, "{kind}");
    }
    // If the plugin's ADD fails, the pod was never ready, and causes no events.
    script(bridge.node(), "sleep 0.3; exit 1", "");
    bridge.run(&pod("q")).await.unwrap_err();
    bridge.stop_pod(&id).await.unwrap();
    let event = told.message().await.unwrap().unwrap();
    assert_eq!(event.container_event_type(), cri::ContainerEventType::ContainerStoppedEvent);
    assert_eq!(event.container_id, id);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn checkpoints_whose_directory_was_deleted_are_written_again() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let first = bridge.run(&pod("first")).await.unwrap();
    let directory = bridge.node().path("state/sandboxes");
    fs::remove_dir_all(&directory).unwrap();
    let second = bridge.run(&pod("second")).await.unwrap();
    for id in [&first, &second] {
        let file = directory.join(format!("{id}.json"));
        eventually(|| file.exists()).await;
    }
    fs::remove_dir_all(&directory).unwrap();
    bridge.stop_pod(&first).await.unwrap();
    bridge.remove_pod(&first).await.unwrap();
    // The directory of checkpoint files is also created again if it is deleted just before dockbridge stops.
    fs::remove_dir_all(&directory).unwrap();
    let node = bridge.stop().await;
    assert!(directory.join(format!("{second}.json")).exists());
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    bridge.clear(&docker).await;
    assert_eq!(leases(&bridge), 0);
}

#[tokio::test]
async fn what_is_kept_of_a_stopped_pod_goes_with_its_container() {
    let Some((_resident, docker, bridge)) = stage().await else { return };
    let id = bridge.run(&pod("stopped")).await.unwrap();
    bridge.stop_pod(&id).await.unwrap();
    let file = bridge.node().path(&format!("state/sandboxes/{id}.json"));
    assert!(file.exists());
    // The engine removes the pause container, as if a dockbridge that has since been killed had requested the removal.
    docker.world(|world| world.remove(&id));
    eventually(|| !file.exists()).await;
    bridge.clear(&docker).await;
}

/// kubelet uses the container statuses in an event until the next event, so an event must have the same
/// statuses as a status call.
#[tokio::test]
async fn events_tell_of_containers_what_a_status_does() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let mut ids = Vec::new();
    for name in ["ended", "runs"] {
        let id = bridge.create(&sandbox, &container(name), &config).await.unwrap();
        bridge.start_container(&id).await.unwrap();
        ids.push(id);
    }
    let [ended, runs] = [&ids[0], &ids[1]];
    docker.world(|world| world.oom(ended));
    let node = bridge.stop().await;
    docker.inject(Rule::new(
        &format!("GET /containers/{ended}/json"),
        Fault::Late(Duration::from_secs(1)),
    ));
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    let listening = bridge.runtime.clone().get_container_events(cri::GetEventsRequest {}).await;
    docker.world(|world| world.exit(runs, 0));
    let event = listening.unwrap().into_inner().message().await.unwrap().unwrap();
    assert_eq!(&event.container_id, runs);
    let statuses = cri::items::<cri::ContainerStatus>(event.containers_statuses).unwrap();
    let sibling = statuses.iter().find(|one| one.id == *ended).unwrap();
    assert_eq!((sibling.reason.as_str(), sibling.message.as_str()), ("OOMKilled", ""));
    docker.clear_faults();
    bridge.clear(&docker).await;
}

/// A directory that takes long to relabel, or `None` if its files cannot have SELinux labels.
fn volume(node: &Node) -> Option<PathBuf> {
    let volume = node.path("volume");
    fs::create_dir(&volume).unwrap();
    if relabel(&volume, (SELINUX, "probe"), &|| false).is_err() {
        skip(Lack::Attributes);
        return None;
    }
    for inode in 0..5 {
        let first = volume.join(inode.to_string());
        fs::write(&first, "").unwrap();
        for link in 0..10_000 {
            fs::hard_link(&first, volume.join(format!("{inode}-{link}"))).unwrap();
        }
    }
    Some(volume)
}

#[tokio::test]
async fn a_volume_that_takes_long_to_relabel_does_not_hold_up_the_stop() {
    let docker = docker().await;
    docker.world(|world| {
        world.info["SecurityOptions"].as_array_mut().unwrap().push("name=selinux".into());
    });
    let bridge = Bridge::start(&docker).await;
    let Some(volume) = volume(bridge.node()) else { return };
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let mut wish = container("c");
    wish.mounts.push(cri::Mount {
        container_path: "/v".to_owned(),
        host_path: volume.display().to_string(),
        selinux_relabel: true,
        ..Default::default()
    });
    docker.forget_requests();
    let stopping = async {
        // One inspect is the store's, and the other is CreateContainer's, for the SELinux label.
        eventually(|| docker.count("GET /containers/*/json") >= 2).await;
        bridge.stop_pod(&sandbox).await
    };
    let (created, stopped) = tokio::join!(bridge.create(&sandbox, &wish, &config), stopping);
    stopped.unwrap();
    let refused = created.unwrap_err();
    assert!(refused.message().contains("the pod is being stopped"), "{refused}");
    assert!(bridge.containers().await.unwrap().is_empty());
    bridge.clear(&docker).await;
}
