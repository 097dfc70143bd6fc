//! Tests of image names that have changed while the engine's event about the change has not arrived. In these
//! tests the event never arrives. One more test is about names in the filter of ListImages.

use std::collections::BTreeSet;

use dockbridge::wire::cri;
use tonic::Code;

use crate::support::{
    bridge::{Bridge, IMAGE, container, docker, image, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::FakeDockerd,
    },
};

/// An engine that no longer sends events, and a dockbridge that is connected to it.
async fn stage() -> (FakeDockerd, Bridge) {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    bridge.until_ready(true).await;
    docker.world(|world| world.event_times = Some(Vec::new()));
    docker.forget_requests();
    (docker, bridge)
}

async fn status(bridge: &Bridge, name: &str) -> Result<Option<String>, Code> {
    let request = cri::ImageStatusRequest { image: Some(image(name)), verbose: false };
    let answer = bridge.images.clone().image_status(request).await;
    answer.map(|answer| answer.into_inner().image.map(|image| image.id)).map_err(|e| e.code())
}

#[tokio::test]
async fn an_image_that_came_a_moment_ago_is_found() {
    let (docker, bridge) = stage().await;
    let id = docker.world(|world| world.add_image("late:1"));
    assert_eq!(status(&bridge, "late:1").await, Ok(Some(id)));
    assert_eq!(docker.count("GET /images/*/json"), 1, "asked once");
    assert_eq!(status(&bridge, "late:1").await, status(&bridge, "docker.io/library/late:1").await);
    assert_eq!(status(&bridge, IMAGE).await.map(|id| id.is_some()), Ok(true));
    assert_eq!(docker.count("GET /images/*/json"), 1, "a hit is no call");
}

/// `crictl images app` shows every tag, as `docker images app` does.
#[tokio::test]
async fn a_filter_without_a_tag_lists_the_whole_repository() {
    let docker = docker().await;
    let [one, two, other] = docker.world(|world| {
        ["app:1", "registry.test:5000/app:1", "app:2"].map(|name| world.add_image(name))
    });
    let bridge = Bridge::start(&docker).await;
    for (name, expected) in [
        ("app", vec![&one, &other]),
        ("docker.io/library/app", vec![&one, &other]),
        ("registry.test:5000/app", vec![&two]),
        ("app:1", vec![&one]),
        ("app:latest", vec![]),
        ("appl", vec![]),
        (&one["sha256:".len()..][..12], vec![&one]),
    ] {
        let filter = Some(cri::ImageFilter { image: Some(image(name)) });
        let answer = bridge.images.clone().list_images(cri::ListImagesRequest { filter }).await;
        let listed = answer.unwrap().into_inner().images;
        let listed: BTreeSet<_> = listed.iter().map(|image| &image.id).collect();
        assert_eq!(listed, expected.into_iter().collect(), "{name}");
    }
}

#[tokio::test]
async fn an_image_is_missing_only_by_the_word_of_the_engine() {
    let (docker, bridge) = stage().await;
    assert_eq!(status(&bridge, "no-such:1").await, Ok(None));
    docker.inject(Rule::new("GET /images/*/json", Fault::Reset));
    assert_eq!(status(&bridge, "no-such:1").await, Err(Code::Unavailable));
}

#[tokio::test]
async fn a_container_is_made_of_the_image_that_has_the_name_now() {
    let (docker, bridge) = stage().await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let (old, new) = docker.world(|world| {
        let held = world.images.iter_mut().find(|image| image.tags == [IMAGE]).unwrap();
        held.tags.clear();
        (held.id.clone(), world.add_image(IMAGE))
    });
    let id = bridge.create(&sandbox, &container("by-tag"), &config).await.unwrap();
    assert_eq!(docker.world(|world| world.container(&id).unwrap().image.clone()), new);
    docker.forget_requests();
    let mut by_id = container("by-id");
    by_id.image = Some(image(&old));
    let id = bridge.create(&sandbox, &by_id, &config).await.unwrap();
    assert_eq!(docker.world(|world| world.container(&id).unwrap().image.clone()), old);
    assert_eq!(docker.count("GET /images/*/json"), 0, "an id cannot move");
    docker.world(|world| world.images.retain(|image| image.id != new));
    let gone = bridge.create(&sandbox, &container("gone"), &config).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    bridge.clear(&docker).await;
}
