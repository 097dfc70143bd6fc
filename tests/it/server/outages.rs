//! Tests with an engine that is missing, stops, is replaced by another engine, sends garbage or freezes.

use std::{process::Stdio, time::Duration};

use dockbridge::{model::network::NetworkMode, wire::cri};
use tokio::{
    net::UnixDatagram,
    process::Command,
    time::{Instant, timeout},
};
use tonic::Code;

use crate::support::{
    bridge::{Bridge, LONG, Node, TIMEOUT, container, docker, pod},
    clock::{PAUSE, hurry, past_silence},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

#[tokio::test]
async fn calls_are_unavailable_while_docker_is_down_at_the_start() {
    let docker = docker().await;
    docker.stop().await;
    let bridge = Bridge::start(&docker).await;
    assert!(!bridge.ready().await.unwrap());
    let (config, step) = (pod("p"), Duration::from_millis(200));
    let error = hurry(PAUSE, step, bridge.run(&config)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("docker.sock"), "{error:?}");
    // ListPodSandbox must fail, because kubelet would believe an empty list.
    let listed = hurry(PAUSE, step, bridge.pods()).await;
    assert_eq!(listed.unwrap_err().code(), Code::Unavailable);
    docker.start_again(45, 24);
    bridge.until_ready(true).await;
    bridge.run(&config).await.unwrap();
    bridge.clear(&docker).await;
}

/// Docker has listed everything, and dockbridge's recovery waits for an inspect that hangs.
#[tokio::test]
async fn a_slow_recovery_is_not_reported_as_a_docker_that_does_not_answer() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    bridge.run(&pod("p")).await.unwrap();
    let node = bridge.stop().await;
    docker.inject(Rule::new("GET /containers/*/json", Fault::StalledHeaders));
    let notify = UnixDatagram::bind(node.path("notify")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dockbridge"));
    command.args(["serve", "--network", "docker", "--streaming-addr", "127.0.0.1:0"]);
    for (flag, name) in [("--listen", "cri.sock"), ("--state-dir", "state"), ("--run-dir", "run")] {
        command.arg(flag).arg(node.path(name));
    }
    command.arg("--docker").arg(docker.socket()).env("NOTIFY_SOCKET", node.path("notify"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut serving = command.spawn().unwrap();
    timeout(LONG, notify.recv(&mut [0; 64])).await.expect("it is ready").unwrap();
    assert!(docker.count("GET /containers/*/json") > 0, "nothing was to be recovered");
    serving.kill().await.unwrap();
    let ended = serving.wait_with_output().await.unwrap();
    let said = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    let blamed = |line: &&str| line.contains("has not listed") || line.contains("not answer");
    assert!(said.contains("serves the container runtime interface"), "{said}");
    assert_eq!(said.lines().find(blamed), None, "{said}");
}

#[tokio::test]
async fn an_engine_may_come_back_as_another_version() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    for newest in [41, 52, 43] {
        docker.stop().await;
        bridge.until_ready(false).await;
        assert_eq!(bridge.pods().await.unwrap().len(), 1, "the last known truth");
        let error = bridge.run(&pod("other")).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error:?}");
        docker.start_again(newest, 24);
        bridge.until_ready(true).await;
        assert_eq!(bridge.run(&pod("p")).await.unwrap(), id, "1.{newest}");
    }
    bridge.clear(&docker).await;
}

/// kubelet's calls wait at the socket while dockbridge starts, so dockbridge gets a Status call as soon as it serves.
/// Here the engine does not answer the first request for the list of images, and a CNI plugin is slow.
#[tokio::test]
async fn the_first_status_reports_nothing_unknown_as_not_ready() {
    let docker = docker().await;
    docker.inject(Rule::new("GET /images/json", Fault::StalledHeaders).times(1));
    let node = Node::new();
    node.network("slow");
    node.plugin("slow", "cat > /dev/null; sleep 3; echo '{\"supportedVersions\":[\"1.0.0\"]}'");
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Cni).await;
    let answer = bridge.runtime.clone().status(cri::StatusRequest::default()).await.unwrap();
    let conditions = answer.into_inner().status.unwrap().conditions;
    assert!(conditions.iter().all(|condition| condition.status), "{conditions:?}");
}

#[tokio::test]
async fn an_engine_may_be_upgraded_at_once() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    docker.speak(41, 24);
    let id = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    docker.speak(52, 44);
    bridge.stop_container(&id, 1).await.unwrap();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn an_engine_that_is_too_old_or_too_new_is_reported() {
    for (newest, oldest, parts) in [(38, 12, ["1.38", "1.41"]), (70, 60, ["1.60", "1.55"])] {
        let docker = FakeDockerd::start_speaking(newest, oldest).await;
        let bridge = Bridge::start(&docker).await;
        assert!(!bridge.ready().await.unwrap());
        let config = pod("p");
        let run = hurry(PAUSE, Duration::from_millis(200), bridge.run(&config));
        let error = run.await.unwrap_err();
        assert!(matches!(error.code(), Code::Unavailable | Code::FailedPrecondition), "{error:?}");
        assert!(parts.iter().all(|part| error.message().contains(part)), "{error:?}");
    }
}

/// Docker's image store is switched while a pod runs, and later switched back. With the other image store,
/// the engine does not list the pod's containers.
#[tokio::test]
async fn a_switched_image_store_is_named() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    docker.stop().await;
    bridge.until_ready(false).await;
    let hidden = docker.world(|world| {
        world.info["Driver"] = "overlayfs".into();
        let details = serde_json::json!([["driver-type", "io.containerd.snapshotter.v1"]]);
        let before = std::mem::replace(&mut world.info["DriverStatus"], details);
        for container in &world.containers {
            let file = world.root.join("containers").join(&container.id).join("config.v2.json");
            let labels = &container.labels;
            let text = serde_json::json!({ "Driver": "overlay2", "Config": { "Labels": labels } });
            std::fs::write(file, text.to_string()).unwrap();
        }
        (std::mem::take(&mut world.containers), before)
    });
    docker.start_again(51, 24);
    bridge.until_ready(true).await;
    assert!(bridge.pods().await.unwrap().is_empty());
    let error = bridge.create(&id, &container("c"), &pod("p")).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "{error:?}");
    for part in [
        id.as_str(),
        "no longer overlay2: hidden containers: 1, pods among them: 1",
        "\"containerd-snapshotter\": false",
    ] {
        assert!(error.message().contains(part), "{part}: {error:?}");
    }
    docker.stop().await;
    bridge.until_ready(false).await;
    docker.world(|world| {
        (world.containers, world.info["DriverStatus"]) = hidden;
        world.info["Driver"] = "overlay2".into();
    });
    docker.start_again(51, 24);
    bridge.until_ready(true).await;
    assert_eq!(bridge.run(&pod("p")).await.unwrap(), id);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn garbage_in_the_event_stream_does_no_harm() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let floods: [&[u8]; 6] = [
        b"\x00\xff\xfe garbage\n",
        b"{}\n{}\n[]\nnull\n17\n",
        b"{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"ID\":\"../../x\"}}\n",
        b"{\"Type\":\"container\",\"Action\":\"destroy\",\"Actor\":{\"ID\":\"\"}}\n",
        b"{\"Type\":17,\"Action\":[],\"Actor\":null}\n",
        &[b'x'; 2 << 20],
    ];
    for flood in floods {
        docker.send_to_events(flood);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let id = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
        bridge.start_container(&id).await.unwrap();
        bridge.until_ready(true).await;
        docker.world(|world| world.exit(&id, 3));
        let began = Instant::now();
        while bridge.containers().await.unwrap()[0].state != 2 {
            assert!(began.elapsed() < LONG, "its end is never seen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bridge.remove_container(&id).await.unwrap();
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn reads_are_answered_while_docker_is_frozen() {
    let docker = docker().await;
    let bridge = Bridge::start_timed(Node::new(), &docker, NetworkMode::Docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    docker.inject(Rule::new("*", Fault::StalledHeaders));
    past_silence(&docker, bridge.until_ready(false)).await;
    let reading = async {
        for _ in 0..20 {
            assert_eq!(bridge.pods().await.unwrap().len(), 1);
            assert_eq!(bridge.containers().await.unwrap().len(), 1);
            assert!(!bridge.ready().await.unwrap());
        }
    };
    timeout(TIMEOUT, reading).await.expect("no read asks the engine");
    let (other, one, config) = (pod("other"), container("d"), pod("p"));
    let began = Instant::now();
    let changes = async {
        tokio::join!(
            bridge.run(&other),
            bridge.create(&sandbox, &one, &config),
            bridge.start_container(&id),
            bridge.stop_container(&id, 1),
            bridge.remove_container(&id),
            bridge.pull("other:1"),
        )
    };
    let (ran, created, started, stopped, removed, pulled) = past_silence(&docker, changes).await;
    assert!(began.elapsed() < 12 * TIMEOUT, "{:?}", began.elapsed());
    for (what, answer) in [
        ("run", ran.map(drop)),
        ("create", created.map(drop)),
        ("start", started),
        ("stop", stopped),
        ("remove", removed),
        ("pull", pulled.map(drop)),
    ] {
        let code = answer.as_ref().map_or_else(tonic::Status::code, |()| Code::Ok);
        assert!(matches!(code, Code::DeadlineExceeded | Code::Unavailable), "{what}: {answer:?}");
    }
    docker.clear_faults();
    bridge.until_ready(true).await;
    let clearing = tokio::time::timeout(LONG, bridge.clear(&docker));
    clearing.await.expect("it thaws");
}

#[tokio::test]
async fn a_call_under_way_is_finished_when_dockbridge_stops() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    docker.inject(Rule::new("POST /containers/create", Fault::Late(Duration::from_millis(500))));
    let mut runtime = bridge.runtime.clone();
    let running = tokio::spawn(async move {
        let config = Some(pod("p"));
        let wish = cri::RunPodSandboxRequest { config, ..Default::default() };
        runtime.run_pod_sandbox(wish).await
    });
    eventually(|| docker.count("POST /containers/create") == 1).await;
    let node = bridge.stop().await;
    let id = running.await.unwrap().expect("it was let finish").into_inner().pod_sandbox_id;
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    assert_eq!(bridge.run(&pod("p")).await.unwrap(), id);
    bridge.clear(&docker).await;
}

/// dockbridge stops, as at a SIGTERM, while the frozen engine has created the container of a second pod and
/// does not answer.
#[tokio::test]
async fn a_frozen_engine_does_not_hold_up_the_end_and_nothing_is_lost() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    docker.forget_requests();
    let _answer = docker.hold_answer("POST /containers/create");
    let mut runtime = bridge.runtime.clone();
    let wish = cri::RunPodSandboxRequest { config: Some(pod("q")), ..Default::default() };
    let run = tokio::spawn(async move { runtime.run_pod_sandbox(wish).await });
    eventually(|| docker.count("POST /containers/create") == 1).await;
    docker.inject(Rule::new("*", Fault::StalledHeaders));
    let mut runtime = bridge.runtime.clone();
    let wish = cri::StopContainerRequest { container_id: id.clone(), timeout: 100 };
    let stop = tokio::spawn(async move { runtime.stop_container(wish).await });
    eventually(|| docker.count(&format!("POST /containers/{id}/stop")) == 1).await;
    // This test moves the clock by at most twenty seconds. The time limits of the create and the stop that
    // the engine does not answer are longer, so the stop of dockbridge must not wait for these two calls.
    let node = hurry(PAUSE, Duration::from_millis(200), bridge.stop()).await;
    // The client's calls must be aborted: the server runs in the process of this test, which continues, so the
    // connections of the calls stay open.
    run.abort();
    stop.abort();
    docker.clear_faults();
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    bridge.until_ready(true).await;
    assert_eq!(bridge.run(&pod("p")).await.unwrap(), sandbox);
    assert_eq!(bridge.containers().await.unwrap()[0].id, id);
    bridge.run(&pod("q")).await.unwrap();
    assert_eq!(docker.world(|world| world.containers.len()), 3, "the second pod was found");
    bridge.clear(&docker).await;
}
