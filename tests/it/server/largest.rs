//! The largest pods, containers and images: limits of CRI requests, and large objects of other programs. A large
//! object must not affect other objects.

use dockbridge::{model::network::NetworkMode, wire::cri};
use serde_json::json;
use tonic::Code;

use super::variables::variable;
use crate::support::bridge::{Bridge, container, docker, pod};

/// A text of bytes that need six characters each in JSON.
fn worst(length: usize) -> String {
    "\u{1}".repeat(length)
}

/// Kubernetes allows 256 KiB of annotations for a pod, and the kernel 128 KiB for an environment variable.
#[tokio::test]
async fn what_kubelet_may_send_is_stored_and_more_is_refused() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let annotations = |length| [("a".to_owned(), worst(length))].into_iter().collect();
    let config = cri::PodSandboxConfig { annotations: annotations(256 << 10), ..pod("p") };
    let sandbox = bridge.run(&config).await.unwrap();
    let large = cri::ContainerConfig {
        envs: vec![variable("V", "\"".repeat((128 << 10) - 3))],
        annotations: annotations(256 << 10),
        ..container("large")
    };
    let id = bridge.create(&sandbox, &large, &config).await.unwrap();
    let vast = cri::ContainerConfig {
        envs: vec![variable("V", "x".repeat(6 << 20))],
        ..container("vast")
    };
    let noted = cri::ContainerConfig { annotations: annotations(600 << 10), ..container("noted") };
    let mount = |number| cri::Mount {
        container_path: format!("/{number}{}", worst(4000)),
        host_path: "/".to_owned(),
        ..Default::default()
    };
    let mounted =
        cri::ContainerConfig { mounts: (0..2500).map(mount).collect(), ..container("mounted") };
    for (refused, limit) in [(vast, "6291456"), (noted, "4194304"), (mounted, "50331648")] {
        let error = bridge.create(&sandbox, &refused, &config).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
        assert!(error.message().contains(limit) && error.message().len() < 400, "{error:?}");
    }
    let noted = cri::PodSandboxConfig { annotations: annotations(600 << 10), ..pod("q") };
    assert_eq!(bridge.run(&noted).await.unwrap_err().code(), Code::InvalidArgument);

    let node = bridge.stop().await;
    let bridge = Bridge::start_on(node, &docker, NetworkMode::Docker).await;
    bridge.until_ready(true).await;
    assert_eq!(bridge.containers().await.unwrap().len(), 1);
    assert_eq!(bridge.create(&sandbox, &large, &config).await.unwrap(), id, "recognised again");
    bridge.start_container(&id).await.unwrap();
    bridge.clear(&docker).await;
}

/// dockbridge cannot read the inspect of this image, as if the image had too many volumes.
#[tokio::test]
async fn an_image_whose_inspect_is_unreadable_can_be_removed() {
    let docker = docker().await;
    let id = docker.world(|world| {
        world.images[0].config = json!({ "Volumes": false });
        world.images[0].id.clone()
    });
    let bridge = Bridge::start(&docker).await;
    bridge.until_ready(true).await;
    let images = bridge.images.clone().list_images(cri::ListImagesRequest::default()).await;
    assert_eq!(images.unwrap().into_inner().images.len(), 1);
    bridge.remove_image(&id).await.unwrap();
    assert!(docker.world(|world| world.images.is_empty()));
}

/// The engine copies the labels of an image into each container of the image.
#[tokio::test]
async fn no_container_is_made_of_an_image_with_large_labels() {
    let docker = docker().await;
    docker.world(|world| {
        world.images[0].config["Labels"] = json!({ "large": "x".repeat(4 << 20) });
    });
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let error = bridge.create(&sandbox, &container("c"), &config).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
    assert!(error.message().contains("all labels of the container in Docker"), "{error:?}");
    bridge.clear(&docker).await;
}
