//! Statistics without calls to the engine. The containers here have no cgroups of their own, so
//! only their attributes are tested.

use dockbridge::wire::cri;
use tonic::Code;

use crate::support::bridge::{Bridge, container, docker, pod};

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
