//! The order of the calls to NRI plugins in difficult cases: plugins that connect during another call, repeated
//! calls, and failed or late answers of the engine.

use std::sync::{Arc, Mutex};

use dockbridge::wire::nri;
use prost::Message;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::plugins::{of_shares, resources, start, start_within, with_container};
use crate::clock::settle;
use crate::support::{
    bridge::{LONG, container, docker, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::eventually,
    },
    nri_plugin::{Plugin, Reply, Told},
};

/// While dockbridge waits for the answer of one plugin, another plugin connects, a pod is created, and a
/// container is removed.
#[tokio::test]
async fn a_plugin_that_connects_is_told_what_the_others_know() {
    let docker = docker().await;
    let (bridge, socket) = start_within(&docker, &[], LONG).await;
    let permitted = Arc::new(Notify::new());
    let held = Arc::clone(&permitted);
    let reply = move |told: &Told| match told.method.as_str() {
        "StartContainer" => Reply::Held(Arc::clone(&held)),
        _ => Reply::Yes(Vec::new()),
    };
    let first = Plugin::synchronised(&socket, ("10", "first"), reply).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let lost = bridge.create(&id, &container("lost"), &pod("p")).await.unwrap();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();

    let (started, (second, late)) = tokio::join!(bridge.start_container(&main), async {
        first.until("StartContainer").await;
        let agrees = |_: &Told| Reply::Yes(Vec::new());
        let second = Plugin::connect(&socket, ("20", "second"), agrees).await;
        second.until("Configure").await;
        let late = pod("late");
        let (late, ()) = tokio::join!(bridge.run(&late), async {
            // dockbridge is about to call the plugins for the new pod when the engine removes a container.
            eventually(|| docker.count("POST /containers/*/start") == 2).await;
            docker.world(|world| world.remove(&lost));
            while bridge.containers().await.unwrap().len() > 1 {
                tokio::task::yield_now().await;
            }
            permitted.notify_one();
        });
        (second, late.unwrap())
    });
    started.unwrap();
    first.until("RemoveContainer").await;
    bridge.remove_pod(&late).await.unwrap();
    let told = second.told.lock().unwrap().clone();
    let known = nri::SynchronizeRequest::decode(told[1].payload.as_slice()).unwrap();
    let known = |id: &String| known.containers.iter().any(|one| one.id == *id);
    assert!(known(&main) && !known(&lost));
    let of = |id: &String| -> Vec<&str> {
        told.iter().filter(|told| told.id == *id).map(|told| told.method.as_str()).collect()
    };
    assert_eq!(of(&lost), [""; 0]);
    assert_eq!(of(&main), ["PostStartContainer"]);
    assert_eq!(of(&late), ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn who_was_not_asked_is_not_told_of_the_end() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    for method in ["RunPodSandbox", "CreateContainer"] {
        let guard = Plugin::guard(&socket, method).await;
        let agrees = |_: &Told| Reply::Yes(Vec::new());
        let last = Plugin::synchronised(&socket, ("20", "last"), agrees).await;
        let mut config = pod(method);
        config.metadata.get_or_insert_default().uid = method.to_owned();
        if method == "RunPodSandbox" {
            bridge.run(&config).await.unwrap_err();
        } else {
            let id = bridge.run(&config).await.unwrap();
            last.forget();
            bridge.create(&id, &container("main"), &config).await.unwrap_err();
        }
        let told = last.methods();
        assert!(!told.iter().any(|told| told.starts_with("Stop") || told.starts_with("Remove")));
        assert!(guard.methods().iter().any(|told| told.starts_with("Remove")), "{method}");
    }
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn what_a_plugin_refused_is_not_told_to_the_next() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    // dockbridge reads the image's files for this container. Later creates do not read the image again, so
    // they remove no container that was created for reading.
    bridge.create(&id, &container("other"), &pod("p")).await.unwrap();
    let guard = Plugin::guard(&socket, "CreateContainer").await;
    docker.inject(Rule::new("DELETE /containers/*", Fault::Status(500, "busy".to_owned())));
    bridge.create(&id, &container("main"), &pod("p")).await.unwrap_err();
    let logger = Plugin::logger(&socket).await;
    let told = logger.told.lock().unwrap()[1].payload.clone();
    let known = nri::SynchronizeRequest::decode(told.as_slice()).unwrap();
    assert_eq!(known.containers.len(), 1);
    docker.clear_faults();
    bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    logger.until("PostCreateContainer").await;
    bridge.clear(&docker).await;
    assert_eq!(guard.methods().iter().filter(|told| *told == "RemoveContainer").count(), 3);
}

/// The engine answers a start with an error, but starts the container later.
#[tokio::test]
async fn a_start_that_comes_true_later_is_told() {
    let docker = docker().await;
    let (bridge, plugin, [_, main]) = with_container(&docker).await;
    let failed = Fault::Status(500, "too slow".to_owned());
    docker.inject(Rule::new("POST /containers/*/start", failed).times(1));
    bridge.start_container(&main).await.unwrap_err();
    docker.world(|world| world.start(&main));
    plugin.until("PostStartContainer").await;
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_start_that_failed_may_be_repeated() {
    let docker = docker().await;
    let (bridge, plugin, [_, main]) = with_container(&docker).await;
    plugin.forget();
    let failed = Fault::Status(500, "no such program".to_owned());
    docker.inject(Rule::new("POST /containers/*/start", failed).times(1));
    bridge.start_container(&main).await.unwrap_err();
    // The plugin may already have got a StopContainer for the failed start.
    bridge.stop_container(&main, 0).await.unwrap();
    bridge.start_container(&main).await.unwrap();
    bridge.stop_container(&main, 0).await.unwrap();
    let started = ["StartContainer", "PostStartContainer", "StopContainer"];
    assert_eq!(plugin.methods(), [&["StartContainer", "StopContainer"], &started[..]].concat());
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_stop_beside_a_start_is_told_by_how_that_goes() {
    let docker = docker().await;
    let (bridge, plugin, [_, main]) = with_container(&docker).await;
    plugin.forget();
    let held = docker.hold("POST /containers/*/start");
    let (started, stopped) = tokio::join!(bridge.start_container(&main), async {
        eventually(|| docker.count("POST /containers/*/start") == 2).await;
        let inspects = docker.count("GET /containers/*/json");
        let goes_on = async {
            // StopContainer asks the engine whether the container runs.
            eventually(|| docker.count("GET /containers/*/json") > inspects).await;
            settle().await;
            held.cancel();
        };
        tokio::join!(bridge.stop_container(&main, 0), goes_on).0
    });
    started.unwrap();
    stopped.unwrap();
    assert_eq!(plugin.methods(), ["StartContainer", "PostStartContainer"]);
    bridge.clear(&docker).await;
}

/// The refused pod still exists, but no plugin has accepted it.
#[tokio::test]
async fn a_refused_pod_that_could_not_be_removed_is_asked_about_again() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let plugin = Plugin::guard(&socket, "RunPodSandbox").await;
    docker.inject(Rule::new("DELETE /containers/*", Fault::Status(500, "busy".to_owned())));
    bridge.run(&pod("p")).await.unwrap_err();
    assert_eq!(bridge.pods().await.unwrap().len(), 1);
    docker.clear_faults();
    let id = bridge.run(&pod("p")).await.unwrap();
    let told = plugin.told.lock().unwrap().last().cloned().unwrap();
    assert_eq!((told.method.as_str(), &told.id), ("RunPodSandbox", &id));
    assert_eq!(bridge.run(&pod("p")).await.unwrap(), id);
    assert_eq!(bridge.pods().await.unwrap().len(), 1);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn calls_that_are_repeated_are_told_once() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let plugin = Plugin::logger(&socket).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    plugin.forget();
    let main = bridge.create(&id, &container("main"), &pod("p")).await.unwrap();
    assert_eq!(bridge.create(&id, &container("main"), &pod("p")).await.unwrap(), main);
    bridge.start_container(&main).await.unwrap();
    bridge.start_container(&main).await.unwrap_err();
    let expected = [
        "CreateContainer",
        "ValidateContainerAdjustment",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
    ];
    assert_eq!(plugin.methods(), expected);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn a_container_that_was_stopped_before_its_start_is_told_whole() {
    let docker = docker().await;
    let (bridge, plugin, [_, main]) = with_container(&docker).await;
    plugin.forget();
    bridge.stop_container(&main, 0).await.unwrap();
    bridge.start_container(&main).await.unwrap();
    bridge.stop_container(&main, 0).await.unwrap();
    let expected = ["StopContainer", "StartContainer", "PostStartContainer", "StopContainer"];
    assert_eq!(plugin.methods(), expected);
    bridge.clear(&docker).await;
}

/// Plugins that assign processors send the assignment of all containers with each answer, so an older assignment must
/// not be applied after a newer one.
#[tokio::test]
async fn updates_are_carried_out_in_the_order_of_the_answers() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let updates = Arc::new(Mutex::new(Vec::new()));
    let answered = Arc::clone(&updates);
    let reply = move |told: &Told| match told.method.as_str() {
        "CreateContainer" => {
            let update = std::mem::take(&mut *answered.lock().unwrap());
            let answer = nri::CreateContainerResponse { update, ..Default::default() };
            Reply::Yes(answer.encode_to_vec())
        }
        _ => Reply::Yes(Vec::new()),
    };
    let _plugin = Plugin::synchronised(&socket, ("10", "cpus"), reply).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let mut known = Vec::new();
    for name in ["one", "two"] {
        known.push(bridge.create(&id, &container(name), &pod("p")).await.unwrap());
    }
    known.sort();
    let update = |container: &String, shares| nri::ContainerUpdate {
        container_id: container.clone(),
        linux: Some(nri::LinuxContainerUpdate { resources: Some(resources(shares)) }),
        ignore_failure: true,
    };
    let slow = CancellationToken::new();
    let call = format!("POST /containers/{}/update", known[0]);
    docker.inject(Rule::new(&call, Fault::HeldAnswer(slow.clone())).times(1));
    *updates.lock().unwrap() = vec![update(&known[0], 256), update(&known[1], 256)];
    bridge.create(&id, &container("three"), &pod("p")).await.unwrap();
    eventually(|| docker.count(&call) == 1).await;
    *updates.lock().unwrap() = vec![update(&known[1], 512)];
    bridge.create(&id, &container("four"), &pod("p")).await.unwrap();
    settle().await;
    slow.cancel();
    let call = format!("POST /containers/{}/update", known[1]);
    eventually(|| docker.count(&call) == 2).await;
    let updates = docker.matching(&call);
    let shares: Vec<_> = updates.iter().map(|it| it.json()["CpuShares"].clone()).collect();
    assert_eq!(shares, [256, 512]);
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn an_update_waits_for_the_limits_from_the_creation() {
    let docker = docker().await;
    let (bridge, socket) = start(&docker, &[]).await;
    let first = Arc::new(Mutex::new(String::new()));
    let created = Arc::clone(&first);
    let reply = move |told: &Told| {
        let mut answer = nri::CreateContainerResponse::default();
        let mut first = created.lock().unwrap();
        match told.method.as_str() {
            "CreateContainer" if first.is_empty() => {
                first.clone_from(&told.id);
                answer.adjust = Some(of_shares(512));
            }
            "CreateContainer" => answer.update.push(nri::ContainerUpdate {
                container_id: first.clone(),
                linux: Some(nri::LinuxContainerUpdate { resources: Some(resources(256)) }),
                ignore_failure: true,
            }),
            _ => {}
        }
        Reply::Yes(answer.encode_to_vec())
    };
    let _plugin = Plugin::synchronised(&socket, ("10", "cpus"), reply).await;
    let id = bridge.run(&pod("p")).await.unwrap();
    let slow = CancellationToken::new();
    let call = "POST /containers/*/update";
    docker.inject(Rule::new(call, Fault::HeldAnswer(slow.clone())).times(1));
    let (one, two, pod) = (container("one"), container("two"), pod("p"));
    let (created, ()) = tokio::join!(bridge.create(&id, &one, &pod), async {
        eventually(|| docker.count(call) == 1).await;
        bridge.create(&id, &two, &pod).await.unwrap();
        settle().await;
        slow.cancel();
    });
    created.unwrap();
    eventually(|| docker.count(call) == 2).await;
    let updates = docker.matching(call);
    let shares: Vec<_> = updates.iter().map(|it| it.json()["CpuShares"].clone()).collect();
    assert_eq!(shares, [512, 256]);
    bridge.clear(&docker).await;
}
