//! Tests images that are mounted into containers, by the engine if it can, otherwise by dockbridge, which unpacks them.

use std::{fs, path::PathBuf, time::Duration};

use dockbridge::wire::cri;
use rand::Rng as _;
use tonic::Code;

use crate::support::{
    cri::Refused,
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::Looks,
    random::seeded,
    stage::Stage,
    world::World,
};

/// Containers can read and execute files of mounted images but not write them. One image is mounted as a whole and in
/// parts, several times in one container and also in another. This image cannot be removed while it is mounted.
pub(crate) async fn read_run_and_not_written(world: World) -> Outcome {
    let stage = Stage::cni(&world, "volumes").await?;
    let (cri, engine) = (&stage.cri, &stage.engine);
    let model = Model::make(&stage).await?;
    let base = cri.image(&world.image).await?.unwrap_or_default().id;
    let pod = stage.recipes.pod("reader");
    let sandbox = cri.run(&pod).await?;
    let mut first = stage.recipes.sleeper("first");
    first.mounts = vec![
        mount(&model.id, "/vol", ""),
        mount(NAME, "/again", ""),
        mount(&model.id, "/deep", "model/deep"),
        mount(&model.id, "/linked", "absolute/."),
        mount(&model.id, "/in", "out/model"),
        mount(&model.id, "/one", "model/file"),
        mount(&base, "/base", ""),
    ];
    let mut second = stage.recipes.sleeper("second");
    second.mounts = vec![mount(&model.id, "/vol", "")];
    let ids = stage.up(&sandbox, &pod, &[first.clone(), second]).await?;
    for (line, said) in [
        ("cat /vol/model/file /again/model/file /in/file /one", "hello\nhello\nhello\nhello"),
        ("cat /deep/er /linked/er", "deeper\ndeeper"),
        ("/vol/bin/busybox echo ran; /base/bin/busybox echo ran", "ran\nran"),
        ("cat /base/www/index.html; ls /vol/www", "dockbridge world"),
        ("for d in vol again deep in base; do touch /$d/x 2>&1; done | grep -c 'Read-only'", "5"),
        ("echo more 2>/dev/null >>/one || echo refused", "refused"),
    ] {
        ensure_eq!(engine.inside(&ids[0], line).await?, said, "{line}");
    }
    ensure_eq!(engine.inside(&ids[1], "cat /vol/model/file").await?, "hello");
    told_back(&stage, &ids[0], &first, &model.id, &base).await?;
    // The image declares a volume, but dockbridge's containers for keeping and reading the image have created
    // no volume.
    ensure_eq!(engine.docker(&["volume", "ls", "-q"]).await?, "");

    let listed = |images: Vec<cri::Image>| images.into_iter().find(|image| image.id == model.id);
    ensure!(listed(cri.list_images().await?).is_some_and(|image| image.pinned), "not pinned");
    for (nth, id) in ids.iter().enumerate() {
        let Some(refused) = cri.remove_image(NAME).await.err() else { fail!("removed in use") };
        ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
        let by_hand = engine.try_docker(&["rmi", NAME]).await?.status.success();
        ensure!(!by_hand, "the engine let go of an image in use");
        ensure_eq!(engine.inside(&ids[1], "cat /vol/model/file").await?, "hello", "{nth}");
        if nth == 0 {
            cri.remove_container(id).await?;
        }
    }
    cri.clear().await?;
    ensure!(listed(cri.list_images().await?).is_some_and(|image| !image.pinned), "still pinned");
    cri.remove_image(NAME).await?;
    ensure_eq!(cri.image(&model.id).await?, None);
    stage.leaves_nothing().await
}

/// If a mount is impossible, the create is refused and no unpacked image is left. If the image is missing, or the path
/// does not lead to a file or directory of the image, the error has the prefix that kubelet reads.
pub(crate) async fn refused(world: World) -> Outcome {
    let stage = Stage::cni(&world, "volumes_refused").await?;
    let cri = &stage.cri;
    let model = Model::make(&stage).await?;
    let pod = stage.recipes.pod("refused");
    let sandbox = cri.run(&pod).await?;
    let before = stage.engine.containers().await?;
    let gone = format!("sha256:{}", "1".repeat(64));
    let wrong = [
        (mount(&model.id, "/vol", "nowhere"), Code::InvalidArgument, "the path does not exist"),
        (mount(&model.id, "/vol", "dangling"), Code::InvalidArgument, "the path does not exist"),
        (
            mount(&model.id, "/vol", "model/file/x"),
            Code::InvalidArgument,
            "cannot be resolved in the image",
        ),
        (
            mount(&model.id, "/vol", "ring"),
            Code::InvalidArgument,
            "cannot be resolved in the image",
        ),
        (mount(&gone, "/vol", ""), Code::NotFound, "pull it first"),
        (mount("nobody.test/pulled:1", "/vol", "x"), Code::NotFound, "pull it first"),
    ];
    for (mount, code, said) in wrong {
        let mut container = stage.recipes.sleeper("main");
        container.mounts = vec![self::mount(&model.id, "/fine", ""), mount.clone()];
        let Some(refused) = cri.create(&sandbox, &container, &pod).await.err() else {
            fail!("{mount:?} was accepted")
        };
        ensure_eq!(refused.code, code, "{refused}");
        ensure!(refused.message.starts_with("ImageVolumeMountFailed: "), "{refused}");
        ensure!(refused.message.contains("/vol") && refused.message.contains(said), "{refused}");
        ensure_eq!(stage.engine.containers().await?, before, "after {refused}");
        ensure!(folders(&stage).is_empty(), "{:?} after {refused}", folders(&stage));
    }
    let writable = cri::Mount { readonly: false, ..mount(&model.id, "/vol", "") };
    let both = cri::Mount { host_path: "/tmp".to_owned(), ..mount(&model.id, "/vol", "") };
    let above = mount(&model.id, "/vol", "../..");
    let mut shared = mount(&model.id, "/vol", "");
    shared.set_propagation(cri::MountPropagation::PropagationBidirectional);
    for (mount, code) in [
        (writable, Code::InvalidArgument),
        (both, Code::InvalidArgument),
        (above, Code::InvalidArgument),
        (shared, Code::InvalidArgument),
    ] {
        let mut container = stage.recipes.sleeper("main");
        container.mounts = vec![mount.clone()];
        let answer = cri.create(&sandbox, &container, &pod).await;
        ensure_eq!(answer.err().map(|refused| refused.code), Some(code), "{mount:?}");
    }
    ensure!(folders(&stage).is_empty(), "{:?}", folders(&stage));
    cri.clear().await?;
    cri.remove_image(NAME).await?;
    stage.leaves_nothing().await
}

/// dockbridge is killed and started, the mounts are removed as by a reboot, and another program removes a
/// container. dockbridge restores the mounts that containers need, and removes the other unpacked images.
pub(crate) async fn after_a_crash(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "volumes_crash").await?;
    let model = Model::make(&stage).await?;
    let pod = stage.recipes.pod("crashed");
    let sandbox = stage.cri.run(&pod).await?;
    let mut container = stage.recipes.sleeper("main");
    container.mounts = vec![mount(&model.id, "/vol", "model"), mount(&model.id, "/all", "")];
    let id = stage.cri.create(&sandbox, &container, &pod).await?;
    let before = stage.cri.container(&id).await?;

    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.container(&id).await?, before);
    stage.bridge.kill().await?;
    unmount(&stage)?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    let mut looks = Looks::every(Duration::from_millis(50));
    while unmount(&stage).is_err() {
        ensure!(looks.again().await, "what a reboot took is not mounted again");
    }
    stage.cri.start(&id).await?;
    ensure_eq!(stage.engine.inside(&id, "cat /vol/file /all/model/file").await?, "hello\nhello");

    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.engine.inside(&id, "cat /vol/file").await?, "hello");
    let kept = folders(&stage);
    ensure_eq!(kept.is_empty(), by_engine(&world));
    let refused: Option<Refused> = stage.cri.remove_image(NAME).await.err();
    ensure!(refused.is_some(), "removed in use after a crash");

    stage.bridge.kill().await?;
    stage.engine.docker(&["rm", "-f", &id]).await?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    let mut looks = Looks::every(Duration::from_millis(100));
    while !folders(&stage).is_empty() || !holders(&stage).await?.is_empty() {
        ensure!(looks.again().await, "still there: {:?}", folders(&stage));
    }
    stage.cri.remove_image(NAME).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// dockbridge is killed at random moments while containers with image volumes are created and removed. At the end no
/// unpacked image is left, and the image can be removed.
pub(crate) async fn killed_at_random_moments(world: World) -> Outcome {
    let mut random = seeded();
    let mut stage = Stage::cni(&world, "volumes_killed").await?;
    let model = Model::make(&stage).await?;
    let pod = stage.recipes.pod("killed");
    let sandbox = stage.cri.run(&pod).await?;
    for round in 0..12_u64 {
        let mut container = stage.recipes.sleeper(&format!("main-{round}"));
        container.mounts = vec![mount(&model.id, "/vol", "model"), mount(&model.id, "/all", "")];
        let (cri, given, named) = (stage.cri.clone(), pod.clone(), sandbox.clone());
        let life = tokio::spawn(async move {
            let id = cri.create(&named, &container, &given).await?;
            cri.start(&id).await?;
            cri.remove_container(&id).await
        });
        // dockbridge is killed at a random moment of create, start and remove, which take about 600 ms together.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..600))).await;
        stage.cri = stage.bridge.crash().await?;
        drop(life.await);
        ensure_eq!(stage.cri.image(NAME).await?.map(|image| image.id), Some(model.id.clone()));
    }
    stage.cri.clear().await?;
    stage.cri = stage.bridge.restart().await?;
    let mut looks = Looks::every(Duration::from_millis(100));
    while !folders(&stage).is_empty() || !holders(&stage).await?.is_empty() {
        ensure!(looks.again().await, "still there: {:?}", folders(&stage));
    }
    stage.cri.remove_image(NAME).await?;
    ensure_eq!(stage.cri.image(&model.id).await?, None);
    stage.leaves_nothing().await
}

/// A test image of two layers. The upper layer hides a file of the lower layer.
struct Model {
    id: String,
}

impl Model {
    async fn make(stage: &Stage) -> Outcome<Self> {
        let (engine, base) = (&stage.engine, stage.world.image.as_str());
        let line = "mkdir -p /model/deep; echo hello >/model/file; echo deeper >/model/deep/er; \
                    rm /www/index.html; ln -s /model/deep /absolute; ln -s ../../.. /out; \
                    ln -s /nowhere /dangling; ln -s ring /ring";
        let made = ["run", "--name", "model-maker", "--network", "none", base, "sh", "-c", line];
        engine.docker(&made).await?;
        let volume = "VOLUME /model/deep";
        let id = engine.docker(&["commit", "--change", volume, "model-maker", NAME]).await?;
        engine.docker(&["rm", "model-maker"]).await?;
        // dockbridge's store learns of the new image from an event.
        let mut looks = Looks::every(Duration::from_millis(50));
        while stage.cri.image(NAME).await?.is_none() {
            ensure!(looks.again().await, "{NAME} is not shown");
        }
        Ok(Self { id })
    }
}

async fn told_back(
    stage: &Stage,
    id: &str,
    asked: &cri::ContainerConfig,
    model: &str,
    base: &str,
) -> Outcome {
    let status = stage.cri.container(id).await?;
    ensure_eq!(status.mounts.len(), asked.mounts.len());
    for (mount, asked) in status.mounts.iter().zip(&asked.mounts) {
        let image = mount.image.clone().unwrap_or_default();
        let meant = if asked.container_path == "/base" { base } else { model };
        ensure_eq!((image.image.as_str(), image.image_ref.as_str()), (meant, meant));
        ensure_eq!(mount.container_path, asked.container_path);
        ensure_eq!(mount.image_sub_path, asked.image_sub_path);
        ensure!(mount.readonly && mount.host_path.is_empty(), "{mount:?}");
    }
    Ok(())
}

fn mount(image: &str, container_path: &str, sub_path: &str) -> cri::Mount {
    cri::Mount {
        container_path: container_path.to_owned(),
        readonly: true,
        image: Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() }),
        image_sub_path: sub_path.to_owned(),
        ..Default::default()
    }
}

fn by_engine(world: &World) -> bool {
    world.docker_major >= 28
}

/// The directories of unpacked images.
fn folders(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.folders.run.join("images"));
    entries.map(|all| all.flatten().map(|one| one.path()).collect()).unwrap_or_default()
}

async fn holders(stage: &Stage) -> Outcome<String> {
    stage.engine.docker(&["ps", "-aq", "--filter", "label=io.dockbridge.image-pin"]).await
}

/// Unmounts the unpacked images, as a reboot does. Fails if one of them is not mounted.
fn unmount(stage: &Stage) -> Outcome {
    for folder in folders(stage) {
        nix::mount::umount(&folder)?;
    }
    Ok(())
}

const NAME: &str = "dockbridge.test/model:1";
