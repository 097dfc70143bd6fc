//! Tests of images: pulls with and without credentials, names, removal, the pause image, users and disk usage.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dockbridge::{pause::archive, wire::cri};
use serde_json::json;
use tonic::Code;

use crate::{
    pods::until_exited,
    support::{
        failure::{Outcome, ensure, ensure_eq, fail},
        patience::Looks,
        registry::Registry,
        stage::Stage,
        world::World,
    },
};

/// The pull of an image from a registry with a password fails without credentials and with wrong ones. With the right
/// credentials, the image is pulled, run, and removed with all its names.
pub(crate) async fn from_a_private_registry(world: World) -> Outcome {
    let stage = Stage::cni(&world, "from_a_private_registry").await?;
    let (cri, registry) = (&stage.cri, &world.private);
    let name = format!("{}/busybox:1", registry.address);
    let auth = |password: &str| cri::AuthConfig {
        username: registry.user.clone(),
        password: password.to_owned(),
        server_address: registry.address.clone(),
        ..Default::default()
    };
    ensure!(cri.pull(&name, None).await.is_err(), "pulled without credentials");
    let refused = cri.pull(&name, Some(auth("wrong"))).await.err();
    let text = refused.map(|refused| refused.to_string()).unwrap_or_default();
    ensure!(!text.is_empty(), "pulled with a wrong password");
    ensure!(!text.contains("wrong"), "the password is in the error: {text}");
    ensure_eq!(cri.image(&name).await?, None);

    let id = cri.pull(&name, Some(auth(&registry.password))).await?;
    let image = cri.image(&name).await?.unwrap_or_default();
    ensure_eq!(image.id, id);
    ensure_eq!(cri.image(&id).await?.unwrap_or_default(), image);
    ensure!(image.size > 0, "the image has no size");
    ensure!(image.repo_tags.contains(&name), "tags are {:?}", image.repo_tags);
    runs(&stage, &name, &id).await?;
    runs(&stage, &id, &id).await?;

    for image in [format!("{}/busybox:1", world.registry), format!("{}/busybox", world.registry)] {
        let outcome = cri.pull(&image, None).await;
        ensure_eq!(outcome.is_ok(), image.ends_with(":1"));
    }
    cri.remove_image(&format!("{}/busybox:1", world.registry)).await?;
    cri.remove_image(&name).await?;
    ensure_eq!(cri.image(&name).await?, None);
    cri.remove_image(&name).await?;
    // RemoveImage removes all names of the image, including the world's own name, so the test pulls and tags the image
    // again.
    restore(&stage, &world).await?;
    stage.leaves_nothing().await
}

/// Some users write a user name and a password before the registry in an image name. dockbridge refuses an image name
/// with a password, and its error must not contain the password, because kubelet writes errors into the events of pods.
pub(crate) async fn with_a_password_in_their_names(world: World) -> Outcome {
    let stage = Stage::cni(&world, "names_with_passwords").await?;
    let (cri, registry) = (&stage.cri, &world.registry);
    let pod = stage.recipes.pod("names");
    let sandbox = cri.run(&pod).await?;
    let digest = format!("sha256:{}", "0".repeat(64));
    for name in [
        format!("{registry}/busybox:1"),
        format!("{registry}/busybox@{digest}"),
        format!("{registry}/busybox:1@sha256:0"),
        format!("{registry}/busy box"),
        format!("busybox@{digest}"),
        "busybox".to_owned(),
    ] {
        let name = format!("user:planted-password@{name}");
        let image = Some(cri::ImageSpec { image: name.clone(), ..Default::default() });
        let of_it = cri::ContainerConfig { image: image.clone(), ..stage.recipes.sleeper("of-it") };
        let mut with_it = stage.recipes.sleeper("with-it");
        let container_path = "/volume".to_owned();
        with_it.mounts.push(cri::Mount { image, container_path, ..Default::default() });
        let mut texts = Vec::new();
        for answer in [
            cri.pull(&name, None).await.map(drop),
            cri.create(&sandbox, &of_it, &pod).await.map(drop),
            cri.create(&sandbox, &with_it, &pod).await.map(drop),
        ] {
            let Err(refused) = answer else { fail!("{name} was taken") };
            texts.push(refused.to_string());
        }
        ensure!(!matches!(cri.image(&name).await, Ok(Some(_))), "{name} was found");
        texts.extend(cri.remove_image(&name).await.err().map(|refused| refused.to_string()));
        let told = texts.iter().find(|text| text.contains("planted-"));
        ensure_eq!(told, None);
    }
    let log = fs::read_to_string(stage.bridge.log())?;
    ensure!(log.contains("busybox"), "the log has no detail: {log}");
    ensure_eq!(log.lines().find(|line| line.contains("planted-")), None::<&str>);
    let until = (SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + 1).to_string();
    let events = ["events", "--since", "10m", "--until", &until, "--format", "{{json .}}"];
    let events = stage.engine.docker(&events).await?;
    ensure!(events.contains(&sandbox) && !events.contains("planted-"), "{events}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// RemoveImage refuses an image that a container of another program uses, even if this container does not run. The
/// image keeps all its names.
pub(crate) async fn in_use_by_a_foreign_container(world: World) -> Outcome {
    let stage = Stage::cni(&world, "in_use_by_a_foreign_container").await?;
    let pulled = format!("{}/busybox:1", world.registry);
    let id = stage.cri.pull(&pulled, None).await?;
    stage.engine.docker(&["tag", &pulled, "stranger.test/own:1"]).await?;
    let stranger = stage.engine.docker(&["create", "stranger.test/own:1", "true"]).await?;
    let names = sorted(stage.cri.image(&id).await?.unwrap_or_default().repo_tags);
    for name in [&pulled, &id] {
        let refused = stage.cri.remove_image(name).await.err();
        let Some(refused) = refused else { fail!("{name} was removed") };
        ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
        ensure!(refused.message.contains(&stranger[..12]), "the holder is not named: {refused}");
        ensure_eq!(sorted(stage.cri.image(&id).await?.unwrap_or_default().repo_tags), names);
    }
    stage.engine.docker(&["rm", &stranger]).await?;
    stage.cri.remove_image(&pulled).await?;
    ensure_eq!(stage.cri.image(&id).await?, None);
    restore(&stage, &world).await?;
    stage.leaves_nothing().await
}

/// With a graph driver, Docker keeps a removed image on which a `docker commit` is based, but does not list it.
/// dockbridge does not list the removed image either.
pub(crate) async fn as_the_parent_of_another(world: World) -> Outcome {
    let stage = Stage::cni(&world, "as_the_parent_of_another").await?;
    let registry = Registry::start().await?;
    registry.offer("parent", &["1"], 1024, &json!({}));
    let (name, child) = (format!("{}/parent:1", registry.address), "child.test/own:1");
    let parent = stage.cri.pull(&name, None).await?;
    let made = stage.engine.docker(&["create", &name, "true"]).await?;
    stage.engine.docker(&["commit", &made, child]).await?;
    stage.engine.docker(&["rm", &made]).await?;
    stage.cri.remove_image(&parent).await?;
    let listed = stage.cri.list_images().await?;
    ensure!(listed.iter().all(|image| image.id != parent), "the parent is listed: {listed:?}");
    ensure_eq!(stage.cri.image(&parent).await?, None);
    ensure_eq!(stage.cri.image(child).await?.unwrap_or_default().repo_tags, [child]);
    stage.cri.remove_image(child).await?;
    stage.leaves_nothing().await
}

/// An image name with a tag of hexadecimal digits, for example from a commit, works in ImageStatus, RemoveImage
/// and CreateContainer.
pub(crate) async fn tagged_like_an_id(world: World) -> Outcome {
    let stage = Stage::cni(&world, "tagged_like_an_id").await?;
    let id = stage.cri.image(&world.image).await?.unwrap_or_default().id;
    let hex = id.strip_prefix("sha256:").unwrap_or(&id).to_owned();
    let commit = format!("app:{}", "0123456789".repeat(4));
    let whole = format!("app:{hex}");
    for name in [&commit, &whole] {
        ensure_eq!(stage.cri.image(name).await?, None);
        stage.cri.remove_image(name).await?;
        stage.engine.docker(&["tag", &world.image, name]).await?;
        runs(&stage, name, &id).await?;
        ensure_eq!(stage.cri.image(name).await?.unwrap_or_default().id, id);
        stage.engine.docker(&["rmi", name]).await?;
    }
    stage.leaves_nothing().await
}

/// ImageStatus finds the pause image by its names, its digests and its id, also by a shortened id. The image is pinned,
/// RemoveImage fails while a pod runs, and after a removal, dockbridge loads the image for the next pod.
pub(crate) async fn the_pause(world: World) -> Outcome {
    let stage = Stage::cni(&world, "the_pause").await?;
    let cri = &stage.cri;
    let sandbox = cri.run(&stage.recipes.pod("paused")).await?;
    let pause = archive::reference();
    let image = cri.image(pause).await?.unwrap_or_default();
    let hex = image.id.strip_prefix("sha256:").unwrap_or_default();
    let long = format!("docker.io/{pause}");
    let digests = image.repo_digests.iter().map(String::as_str);
    let spellings: Vec<&str> = [pause, &long, &image.id, hex, &hex[..12], &image.id[..19]]
        .into_iter()
        .chain(digests)
        .collect();
    let pinned = |images: &[cri::Image]| -> Vec<String> {
        images.iter().filter(|image| image.pinned).map(|image| image.id.clone()).collect()
    };
    ensure_eq!(pinned(&cri.list_images().await?), std::slice::from_ref(&image.id));
    for name in &spellings {
        ensure_eq!(cri.image(name).await?, Some(image.clone()), "{name}");
        let Some(refused) = cri.remove_image(name).await.err() else { fail!("{name} is gone") };
        ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
        ensure_eq!(cri.image(name).await?, Some(image.clone()), "{name}");
    }
    ensure_eq!(cri.sandbox(&sandbox).await?.state(), cri::PodSandboxState::SandboxReady);
    cri.clear().await?;
    cri.remove_image(pause).await?;
    ensure_eq!(cri.image(&image.id).await?, None);
    cri.run(&stage.recipes.pod("again")).await?;
    ensure_eq!(pinned(&cri.list_images().await?).len(), 1);
    cri.clear().await?;
    stage.leaves_nothing().await
}

/// Tags and digests of an image lead to the same id. A pull by digest adds no tag.
pub(crate) async fn by_digest_by_tag_and_both(world: World) -> Outcome {
    let stage = Stage::cni(&world, "by_digest_by_tag_and_both").await?;
    let (cri, registry) = (&stage.cri, Registry::start().await?);
    let digest = registry.offer("app", &["latest", "1", "2"], 2048, &json!({}));
    let bare = format!("{}/app", registry.address);
    let whole = format!("{bare}@{digest}");
    let both = format!("{bare}:1@{digest}");
    for (name, tags) in [(&whole, vec![]), (&both, vec![]), (&bare, vec![format!("{bare}:latest")])]
    {
        let id = cri.pull(name, None).await?;
        let image = cri.image(name).await?.unwrap_or_default();
        ensure_eq!((&image.id, &image.repo_tags), (&id, &tags), "{name}");
        ensure_eq!(image.repo_digests, std::slice::from_ref(&whole), "{name}");
        for other in [&id, &whole, &both] {
            ensure_eq!(cri.image(other).await?, Some(image.clone()), "{other}");
        }
        let listed = cri.list_images().await?.into_iter().filter(|one| one.id == id);
        ensure_eq!(listed.collect::<Vec<_>>(), [image]);
        cri.remove_image(name).await?;
        ensure_eq!(cri.image(&id).await?, None);
    }
    stage.leaves_nothing().await
}

/// RemoveImage removes all names of an image together, even if five callers remove it at the same time or shortly after
/// each other. When a call returns, ImageStatus does not find the name.
pub(crate) async fn removed_by_many(world: World) -> Outcome {
    let stage = Stage::cni(&world, "removed_by_many").await?;
    let (cri, registry) = (&stage.cri, Registry::start().await?);
    let digest = registry.offer("app", &["1", "2", "latest"], 2048, &json!({}));
    let bare = format!("{}/app", registry.address);
    let whole = format!("{bare}@{digest}");
    let tags = ["1", "2", "latest"].map(|tag| format!("{bare}:{tag}"));
    for apart in (0..12).map(Duration::from_millis) {
        let mut ids = Vec::new();
        for tag in &tags {
            ids.push(cri.pull(tag, None).await?);
        }
        ids.dedup();
        ensure_eq!(ids.len(), 1_usize);
        ensure_eq!(sorted(cri.image(&ids[0]).await?.unwrap_or_default().repo_tags), tags);
        let names = [&ids[0], &tags[0], &whole, &ids[0], &tags[1]];
        let removals = names.into_iter().zip(0..).map(async |(name, nth)| {
            // The test sleeps so that the calls begin 0 to 11 ms after each other.
            tokio::time::sleep(apart * nth).await;
            cri.remove_image(name).await?;
            ensure_eq!(cri.image(name).await?, None, "{name}, {apart:?} apart");
            Ok(())
        });
        futures_util::future::try_join_all(removals).await?;
    }
    stage.leaves_nothing().await
}

/// ImageStatus reports the user from the image's configuration, as an id or as a name.
pub(crate) async fn of_a_user(world: World) -> Outcome {
    let stage = Stage::cni(&world, "of_a_user").await?;
    let registry = Registry::start().await?;
    for (nth, (user, uid, name)) in [
        ("", None, ""),
        ("0", Some(0), ""),
        ("1002", Some(1002), ""),
        ("1003:0", Some(1003), ""),
        ("www-data", None, "www-data"),
        ("www-data:100", None, "www-data"),
    ]
    .into_iter()
    .enumerate()
    {
        let repository = format!("user-{nth}");
        registry.offer(&repository, &["1"], 1024, &json!({ "User": user }));
        let reference = format!("{}/{repository}:1", registry.address);
        stage.cri.pull(&reference, None).await?;
        let image = stage.cri.image(&reference).await?.unwrap_or_default();
        ensure_eq!(image.uid.map(|uid| uid.value), uid, "{user:?}");
        ensure_eq!(image.username, name, "{user:?}");
        stage.cri.remove_image(&reference).await?;
    }
    stage.leaves_nothing().await
}

/// Tests ImageFsInfo: the path and the disk usage of images and of containers.
pub(crate) async fn on_their_disk(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "on_their_disk").await?;
    let root = world.root.join("docker/data");
    let place = if world.has_containerd_store { root.join("containerd/daemon") } else { root };
    let (images, containers) = stage.cri.disk().await?;
    for part in [&images, &containers] {
        let id = part.fs_id.clone().unwrap_or_default();
        ensure_eq!(id.mountpoint, place.display().to_string());
    }
    let bytes = |part: &cri::FilesystemUsage| part.used_bytes.map_or(0, |bytes| bytes.value);
    let registry = Registry::start().await?;
    registry.offer("large", &["1"], 8 << 20, &json!({}));
    let large = format!("{}/large:1", registry.address);
    stage.cri.pull(&large, None).await?;
    let pod = stage.recipes.pod("writer");
    let sandbox = stage.cri.run(&pod).await?;
    let writer =
        stage.recipes.container("main", "dd if=/dev/zero of=/big bs=1M count=4; sleep 600");
    let ids = stage.up(&sandbox, &pod, &[writer]).await?;
    stage.engine.inside(&ids[0], "until [ $(wc -c < /big) = 4194304 ]; do sleep 0.1; done").await?;
    // dockbridge measures images at its start, and later at most twice a minute, so the test restarts it here.
    stage.cri = stage.bridge.restart().await?;
    let mut looks = Looks::every(Duration::from_millis(100));
    let (before, written) = (bytes(&images), bytes(&containers) + (4 << 20));
    let mut told = (0, 0);
    while told.1 < written && looks.again().await {
        let (images, containers) = stage.cri.disk().await?;
        told = (bytes(&images), bytes(&containers));
    }
    let (after, layers) = told;
    ensure!(before > 0 && after >= before + (8 << 20), "images took {before} and {after}");
    ensure!(layers >= written, "containers took {layers}, expected {written}");
    stage.cri.clear().await?;
    stage.cri.remove_image(&large).await?;
    stage.leaves_nothing().await
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

async fn runs(stage: &Stage, image: &str, id: &str) -> Outcome {
    let pod = stage.recipes.pod("puller");
    let sandbox = stage.cri.run(&pod).await?;
    let mut container = stage.recipes.container("main", "echo ran");
    container.image = Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() });
    let ids = stage.up(&sandbox, &pod, &[container]).await?;
    let status = until_exited(&stage.cri, &ids[0]).await?;
    ensure_eq!(status.image_id, id);
    ensure!(!status.image_ref.is_empty(), "no image_ref");
    stage.cri.clear().await
}

async fn restore(stage: &Stage, world: &World) -> Outcome {
    let name = format!("{}/busybox:1", world.registry);
    stage.engine.docker(&["pull", "-q", &name]).await?;
    stage.engine.docker(&["tag", &name, &world.image]).await?;
    stage.engine.docker(&["rmi", &name]).await?;
    Ok(())
}
