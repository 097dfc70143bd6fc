//! Tests which pods and containers are in the answers of statistics calls, and how long these calls wait for inspects.
//! The containers of these tests have no cgroups, so the tests check no usage.

use std::{pin::pin, time::Instant};

use dockbridge::{model::network::NetworkMode, store::settings::SYNC_TIMEOUT, wire::cri};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::support::{
    bridge::{Bridge, container, docker, pod},
    fake_dockerd::server::FakeDockerd,
};

#[tokio::test]
async fn statistics_of_an_unknown_id_are_not_found() {
    let docker = docker().await;
    let mut bridge = Bridge::start(&docker).await;
    let (container_id, pod_sandbox_id) = ("0".repeat(64), "0".repeat(64));
    let request = cri::ContainerStatsRequest { container_id };
    let error = bridge.runtime.container_stats(request).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "{error:?}");
    let request = cri::PodSandboxStatsRequest { pod_sandbox_id };
    let error = bridge.runtime.pod_sandbox_stats(request).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "{error:?}");
    let empty = bridge.runtime.container_stats(cri::ContainerStatsRequest::default()).await;
    assert_eq!(empty.unwrap_err().code(), Code::InvalidArgument);
}

/// The engine's list has no pids, and dockbridge needs a container's pid for its statistics.
#[tokio::test]
async fn statistics_after_a_restart_wait_for_the_inspect() {
    let docker = docker().await;
    let (bridge, [sandbox, id], inspect) = restarted(&docker).await;
    let (mut first, mut second) = (bridge.runtime.clone(), bridge.runtime.clone());
    let stats = first.container_stats(cri::ContainerStatsRequest { container_id: id });
    let pod = second.pod_sandbox_stats(cri::PodSandboxStatsRequest { pod_sandbox_id: sandbox });
    let (mut stats, mut pod) = (pin!(stats), pin!(pod));
    let others = async {
        for _ in 0..20 {
            bridge.containers().await.unwrap();
        }
    };
    tokio::select! {
        answer = &mut stats => panic!("answered before the inspect: {answer:?}"),
        answer = &mut pod => panic!("answered before the inspect: {answer:?}"),
        () = others => inspect.cancel(),
    }
    let (stats, pod) = tokio::join!(stats, pod);
    assert!(stats.is_ok() && pod.is_ok(), "{stats:?} {pod:?}");
    bridge.clear(&docker).await;
}

/// Restarts dockbridge while a pod with one container runs, and returns the ids of both. The engine answers no inspect
/// of the container until the token is cancelled.
async fn restarted(docker: &FakeDockerd) -> (Bridge, [String; 2], CancellationToken) {
    let bridge = Bridge::start(docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &pod("p")).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    let node = bridge.stop().await;
    let inspect = docker.hold_answer(&format!("GET /containers/{id}/json"));
    let bridge = Bridge::start_on(node, docker, NetworkMode::Docker).await;
    (bridge, [sandbox, id], inspect)
}

/// kubelet reports 0 for the values that a container lacks in a list of statistics.
#[tokio::test]
async fn lists_of_statistics_wait_for_the_inspects_within_a_limit() {
    let docker = docker().await;
    let (bridge, _, inspect) = restarted(&docker).await;
    let (mut first, mut second) = (bridge.runtime.clone(), bridge.runtime.clone());
    let asked = Instant::now();
    let (containers, pods) = tokio::join!(
        first.list_container_stats(cri::ListContainerStatsRequest { filter: None }),
        second.list_pod_sandbox_stats(cri::ListPodSandboxStatsRequest { filter: None }),
    );
    assert!(asked.elapsed() >= SYNC_TIMEOUT, "answered before the inspect");
    assert_eq!(containers.unwrap().into_inner().stats.len(), 1);
    assert_eq!(pods.unwrap().into_inner().stats.len(), 1);
    inspect.cancel();
    bridge.clear(&docker).await;
}

#[tokio::test]
async fn statistics_are_of_containers_that_run() {
    let docker = docker().await;
    let mut bridge = Bridge::start(&docker).await;
    let sandbox = bridge.run(&pod("p")).await.unwrap();
    let mut ids = Vec::new();
    for name in ["runs", "waits"] {
        ids.push(bridge.create(&sandbox, &container(name), &pod("p")).await.unwrap());
    }
    bridge.start_container(&ids[0]).await.unwrap();

    let all = cri::ListContainerStatsRequest { filter: None };
    let listed = bridge.runtime.list_container_stats(all).await.unwrap().into_inner().stats;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let attributes = listed[0].attributes.as_ref().unwrap();
    assert_eq!((attributes.id.as_str(), attributes.metadata.is_some()), (ids[0].as_str(), true));

    let request = cri::ContainerStatsRequest { container_id: ids[1].clone() };
    let waits = bridge.runtime.container_stats(request).await.unwrap().into_inner().stats.unwrap();
    assert_eq!(waits.attributes.unwrap().metadata.unwrap().name, "waits");
    assert!(waits.cpu.is_none() && waits.memory.is_none() && waits.writable_layer.is_none());

    let all = cri::ListPodSandboxStatsRequest { filter: None };
    let listed = bridge.runtime.list_pod_sandbox_stats(all).await.unwrap().into_inner().stats;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].linux.as_ref().unwrap().containers.len(), 1);

    bridge.stop_pod(&sandbox).await.unwrap();
    let all = cri::ListPodSandboxStatsRequest { filter: None };
    let listed = bridge.runtime.list_pod_sandbox_stats(all).await.unwrap().into_inner().stats;
    assert!(listed.is_empty(), "its pause has ended");
    let request = cri::PodSandboxStatsRequest { pod_sandbox_id: sandbox };
    let ended =
        bridge.runtime.pod_sandbox_stats(request).await.unwrap().into_inner().stats.unwrap();
    assert!(ended.attributes.unwrap().metadata.is_some());
    assert!(ended.linux.unwrap().containers.is_empty());
    bridge.clear(&docker).await;
}
