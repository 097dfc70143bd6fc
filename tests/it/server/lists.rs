//! Streamed lists: long lists in several messages, empty lists, and lists before the engine's first answer.

use std::time::Duration;

use dockbridge::wire::cri;
use tonic::Code;

use crate::support::{
    bridge::{Bridge, docker},
    clock::{PAUSE, hurry},
};

/// The number of images that the test adds, which is more than two messages of a streaming call contain.
const MANY: usize = 1200;

#[tokio::test]
async fn a_long_list_comes_in_portions() {
    let docker = docker().await;
    docker.world(|world| {
        for number in 0..MANY {
            world.add_image(&format!("many:{number}"));
        }
    });
    let bridge = Bridge::start(&docker).await;
    let (request, mut images) = (cri::ListImagesRequest::default(), bridge.images.clone());
    let listed = images.list_images(request).await.unwrap().into_inner().images;
    assert_eq!(listed.len(), MANY + 1);
    let request = cri::StreamImagesRequest::default();
    let mut stream = images.stream_images(request).await.unwrap().into_inner();
    let (mut told, mut portions) = (Vec::new(), 0);
    while let Some(portion) = stream.message().await.unwrap() {
        assert!((1..=500).contains(&portion.images.len()), "{}", portion.images.len());
        told.extend(portion.images);
        portions += 1;
    }
    assert_eq!(portions, 3);
    assert!(told == listed, "not the same images, or not in the same order");
    // A client disconnects in the middle of the list, and dockbridge's stop does not wait for this client.
    let request = cri::StreamImagesRequest::default();
    let mut left = images.stream_images(request).await.unwrap().into_inner();
    left.message().await.unwrap().unwrap();
    drop(left);
    bridge.stop().await;
}

#[tokio::test]
async fn an_empty_list_is_an_empty_stream() {
    let docker = docker().await;
    let mut bridge = Bridge::start(&docker).await;
    let request = cri::StreamPodSandboxesRequest::default();
    let mut pods = bridge.runtime.stream_pod_sandboxes(request).await.unwrap().into_inner();
    assert_eq!(pods.message().await.unwrap(), None);
    let request = cri::StreamPodSandboxMetricsRequest::default();
    let mut pods = bridge.runtime.stream_pod_sandbox_metrics(request).await.unwrap().into_inner();
    assert_eq!(pods.message().await.unwrap(), None);
}

/// If the engine has never answered, a streamed list is refused like a list in a single message.
#[tokio::test]
async fn streamed_lists_are_unavailable_before_the_first_list() {
    let docker = docker().await;
    docker.stop().await;
    let mut bridge = Bridge::start(&docker).await;
    let request = cri::StreamPodSandboxesRequest::default();
    let asked = bridge.runtime.stream_pod_sandboxes(request);
    let error = hurry(PAUSE, Duration::from_millis(200), asked).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    let announced = cri::ListMetricDescriptorsRequest {};
    let announced = bridge.runtime.list_metric_descriptors(announced).await.unwrap().into_inner();
    assert!(!announced.descriptors.is_empty(), "kubelet asks for this only once");
}
