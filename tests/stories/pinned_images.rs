//! Tests images that kubelet must not remove: images pinned by settings, images of containers that kubelet
//! does not know, and images that kubelet did not pull.

use std::time::Duration;

use serde_json::json;
use tonic::Code;

use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq, fail},
    registry::Registry,
    stage::Stage,
    world::World,
};

/// Settings pin images by a pattern of names, by a name without a tag, and by label.
pub(crate) async fn what_is_pinned(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "what_is_pinned").await?;
    let registry = Registry::start().await?;
    let address = &registry.address;
    registry.offer("team/keep", &["1"], 1024, &json!({}));
    registry.offer("labelled", &["1"], 1024, &json!({ "Labels": { "keep": "yes" } }));
    registry.offer("other", &["1"], 1024, &json!({ "Labels": { "keep": "no" } }));
    let names = ["team/keep", "labelled", "other"].map(|name| format!("{address}/{name}:1"));
    for name in &names {
        stage.cri.pull(name, None).await?;
        ensure!(!pinned(&stage.cri, name).await?, "{name} is pinned");
    }
    let pins = format!("{address}/team/*, dockbridge.test/busybox");
    let flags = ["--pinned-images", &pins, "--pinned-image-labels", "keep=yes"];
    stage.cri = stage.bridge.restart_with(&flags).await?;
    for (name, expected) in names.iter().chain([&world.image]).zip([true, true, false, true]) {
        ensure_eq!(pinned(&stage.cri, name).await?, expected, "{name}");
    }
    for name in &names {
        stage.cri.remove_image(name).await?;
    }
    stage.leaves_nothing().await
}

/// The image of a container that a user created by hand is pinned while the container exists, running or not:
/// kubelet does not know the container, and would try to remove the image forever.
pub(crate) async fn used_by_a_foreign_container(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "used_by_a_foreign_container").await?;
    let early = stage.engine.docker(&["create", &world.image, "true"]).await?;
    until(&stage.cri, &world.image, true).await?;
    stage.cri = stage.bridge.restart().await?;
    // If the inspect of the container is slow, the image is pinned later.
    until(&stage.cri, &world.image, true).await?;
    let late = stage.engine.docker(&["run", "-d", &world.image, "true"]).await?;
    stage.engine.docker(&["rm", &early]).await?;
    let Some(refused) = stage.cri.remove_image(&world.image).await.err() else { fail!("removed") };
    ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
    ensure!(pinned(&stage.cri, &world.image).await?, "the other is still there");
    stage.engine.docker(&["rm", "-f", &late]).await?;
    until(&stage.cri, &world.image, false).await?;

    let pod = stage.recipes.pod("own");
    let sandbox = stage.cri.run(&pod).await?;
    stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    ensure!(!pinned(&stage.cri, &world.image).await?, "of its own containers kubelet knows");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// With `--collect-images pulled`, images that a developer built or loaded are pinned, and all images if the list of
/// pulled images is lost. Images that only kubelet pulled are not pinned, also after a restart of dockbridge, until a
/// user gives them another name.
pub(crate) async fn what_kubelet_did_not_pull(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "what_kubelet_did_not_pull").await?;
    stage.cri = stage.bridge.restart_with(&["--collect-images", "pulled"]).await?;
    let registry = Registry::start().await?;
    registry.offer("own", &["1"], 1024, &json!({}));
    registry.offer("both", &["1"], 1024, &json!({}));
    let own = format!("{}/own:1", registry.address);
    let both = format!("{}/both:1", registry.address);
    stage.engine.docker(&["pull", "-q", &both]).await?;
    until(&stage.cri, &both, true).await?;
    for name in [&own, &both] {
        stage.cri.pull(name, None).await?;
    }
    for restarts in 0..2 {
        if restarts > 0 {
            stage.cri = stage.bridge.crash().await?;
        }
        ensure!(!pinned(&stage.cri, &own).await?, "kubelet pulled it");
        ensure!(pinned(&stage.cri, &both).await?, "it was there before");
        ensure!(pinned(&stage.cri, &world.image).await?, "nobody pulled it");
    }
    stage.engine.docker(&["tag", &own, "mine.test/own:1"]).await?;
    until(&stage.cri, &own, true).await?;
    stage.engine.docker(&["rmi", "mine.test/own:1"]).await?;
    until(&stage.cri, &own, false).await?;
    stage.bridge.stop().await?;
    std::fs::remove_file(stage.folders.state.join("pulled-images.json"))?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    ensure!(pinned(&stage.cri, &own).await?, "nobody knows any more");
    for name in [&own, &both] {
        stage.cri.remove_image(name).await?;
    }
    stage.leaves_nothing().await
}

/// Whether ImageStatus and ListImages show the image as pinned. Fails if ImageStatus and ListImages disagree.
async fn pinned(cri: &Cri, name: &str) -> Outcome<bool> {
    let image = cri.image(name).await?.unwrap_or_default();
    ensure!(!image.id.is_empty(), "there is no {name}");
    let listed = cri.list_images().await?.into_iter().find(|one| one.id == image.id);
    ensure_eq!(listed.as_ref().map(|one| one.pinned), Some(image.pinned));
    Ok(image.pinned)
}

/// Waits until ImageStatus shows the image as pinned, or as not pinned if `wanted` is false.
async fn until(cri: &Cri, name: &str, wanted: bool) -> Outcome {
    for _ in 0..500 {
        // Does not call ListImages as well, because Docker's event may arrive between the two calls.
        if cri.image(name).await?.is_some_and(|image| image.pinned == wanted) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fail!("{name} never became {wanted}")
}
