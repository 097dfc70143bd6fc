//! Tests of images in the store: names, ids, and image stores of the engine in a bad state.

use serde_json::json;

use super::{SOON, is_up, pod, start, synced, until};
use crate::support::fake_dockerd::{
    fault::{Fault, Rule},
    server::FakeDockerd,
};

#[tokio::test]
async fn an_image_is_found_by_every_name_it_has() {
    let docker = FakeDockerd::start().await;
    let (app, busybox) = docker
        .world(|world| (world.add_image("ghcr.io/me/app:1"), world.add_image("busybox:latest")));
    let store = synced(&docker).await;
    let shown = store.snapshot();
    let hex = app.strip_prefix("sha256:").unwrap();
    let digest = format!("ghcr.io/me/app@{app}");
    let both = format!("ghcr.io/me/app:other@{app}");
    for name in ["ghcr.io/me/app:1", &app, hex, &hex[..12], &app[..30], &digest, &both] {
        assert_eq!(shown.image(name).expect(name).id.as_str(), app, "{name}");
    }
    for name in ["busybox", "docker.io/library/busybox:latest", "library/busybox"] {
        assert_eq!(shown.image(name).expect(name).id.as_str(), busybox, "{name}");
    }
    for name in ["", "sha256:", "busybox:1", "ghcr.io/me/app", &hex[..11], "../busybox"] {
        assert!(shown.image(name).is_none(), "{name}");
    }
    assert_eq!(shown.images().len(), 2);
}

#[tokio::test]
async fn a_tag_of_hexadecimal_digits_is_a_name() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    let commit = format!("app:{}", "0123456789".repeat(4));
    let id = docker.world(|world| world.add_image(&commit));
    store.refresh_image(&commit).await.unwrap();
    assert_eq!(store.snapshot().image(&commit).expect("by its tag").id.as_str(), id);
    // The name of an image may look like the start of another image's id.
    let short = id.strip_prefix("sha256:").unwrap()[..12].to_owned();
    assert_eq!(store.snapshot().image(&short).expect("by its id").id.as_str(), id);
    let named = docker.world(|world| world.add_image(&format!("{short}:latest")));
    store.refresh_image(&named).await.unwrap();
    assert_eq!(store.snapshot().image(&short).expect("by its name").id.as_str(), named);
    docker.world(|world| world.images.retain(|image| image.id != id));
    store.refresh_image(&commit).await.unwrap();
    until(&store, "it is gone", |s| s.image(&commit).is_none()).await;
}

#[tokio::test]
async fn pulls_tags_and_removals_are_followed() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    let old = docker.world(|world| world.add_image("app:1"));
    until(&store, "it came", |s| s.image("app:1").is_some()).await;
    // The name moves to another image. The engine's event does not say which image had the name before.
    let new = docker.world(|world| {
        world.images[0].tags.clear();
        world.add_image("app:1")
    });
    until(&store, "the name moved", |s| s.image("app:1").is_some_and(|i| i.id.as_str() == new))
        .await;
    until(&store, "the old image lost it", |s| {
        s.image(&old).is_some_and(|image| image.repo_tags.is_empty())
    })
    .await;
    docker.world(|world| {
        world.images.retain(|image| image.id != new);
        world.emit("image", "untag", &new, &json!({}));
        world.emit("image", "delete", &new, &json!({}));
    });
    until(&store, "it is gone", |s| s.image("app:1").is_none() && s.image(&new).is_none()).await;
    assert!(store.snapshot().image(&old).is_some());
}

#[tokio::test]
async fn a_refresh_by_name_shows_what_was_pulled() {
    let docker = FakeDockerd::start().await;
    let store = synced(&docker).await;
    let id = docker.world(|world| {
        let id = world.offer_image("app:2");
        let image = world.registry[0].clone();
        world.images.push(image);
        id
    });
    store.refresh_image("docker.io/library/app:2").await.unwrap();
    assert_eq!(store.snapshot().image("app:2").unwrap().id.as_str(), id);
    docker.world(|world| world.images.clear());
    store.refresh_image(&id).await.unwrap();
    assert!(store.snapshot().images().is_empty());
}

/// In moby#46077 and arvados#488, one broken image made every image list of a client fail.
#[tokio::test]
async fn one_broken_image_does_not_matter() {
    let docker = FakeDockerd::start().await;
    let (broken, sound, half) = docker.world(|world| {
        (world.add_image("broken:1"), world.add_image("sound:1"), world.add_image("half:1"))
    });
    let corrupt = Fault::Status(500, "content digest: not found".to_owned());
    docker.inject(Rule::new(&format!("GET /images/{broken}/json"), corrupt));
    let missing = Fault::Status(404, "No such image".to_owned());
    docker.inject(Rule::new(&format!("GET /images/{half}/json"), missing));
    let store = start(&docker);
    let shown = tokio::time::timeout(SOON, store.complete()).await.unwrap().unwrap();
    assert!(is_up(&shown));
    assert!(shown.image(&half).is_none());
    assert!(shown.image(&sound).unwrap().inspected);
    assert!(!shown.image(&broken).unwrap().inspected, "there, though no more is known of it");
    let broken = store.inspected_image("broken:1").await.unwrap();
    assert!(broken.is_none(), "so that it is pulled again: {broken:?}");
    assert!(store.inspected_image("sound:1").await.unwrap().is_some());
}

#[tokio::test]
async fn images_that_cannot_be_listed_do_not_stop_pods() {
    let docker = FakeDockerd::start().await;
    let id = docker.world(|world| pod(world, "a"));
    docker.inject(Rule::new("GET /images/json", Fault::Status(500, "corrupt".to_owned())));
    let store = start(&docker);
    let shown = store.synced(SOON).await.unwrap();
    assert!(is_up(&shown) && shown.sandbox(&id).is_some());
    docker.world(|world| world.add_image("app:1"));
    until(&store, "new images are seen all the same", |s| s.image("app:1").is_some()).await;
}

#[tokio::test]
async fn a_thousand_images_are_in_soon() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| {
        for number in 0..1000 {
            world.add_image(&format!("app:{number}"));
        }
    });
    let store = start(&docker);
    let shown = store.synced(SOON).await.unwrap();
    assert_eq!(shown.images().len(), 1000);
    assert!(shown.image("app:999").is_some());
}
