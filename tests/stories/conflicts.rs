//! Names that are in use when a pod or container is to be created.

use dockbridge::{
    model::{name, sandbox::PodMetadata},
    wire::cri,
};
use tonic::Code;

use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    stage::Stage,
    world::World,
};

/// The container that has the requested name has exited. dockbridge removes the exited container and creates the
/// new container.
pub(crate) async fn held_by_an_exited_one(world: World) -> Outcome {
    let stage = Stage::cni(&world, "held_exited").await?;
    let cri = &stage.cri;
    let pod = stage.recipes.pod("holder");
    let main = stage.recipes.sleeper("main");
    let old = cri.run(&pod).await?;
    let old_main = stage.up(&old, &pod, std::slice::from_ref(&main)).await?;
    stage.engine.docker(&["kill", &old]).await?;
    let new = cri.run(&pod).await?;
    ensure!(new != old, "the ended sandbox was given again");
    ensure_eq!(cri.sandbox(&new).await?.state(), cri::PodSandboxState::SandboxReady);

    cri.stop_container(&old_main[0], 0).await?;
    let fresh = stage.up(&new, &pod, std::slice::from_ref(&main)).await?;
    ensure!(fresh != old_main, "the ended container was given again");
    ensure_eq!(cri.container(&fresh[0]).await?.state(), cri::ContainerState::ContainerRunning);
    cri.clear().await?;
    stage.leaves_nothing().await
}

/// The container that has the requested name was created and never started, as after a crash. RunPodSandbox
/// succeeds, and a second CreateContainer returns the id of the created container.
pub(crate) async fn held_by_a_created_one(world: World) -> Outcome {
    let stage = Stage::cni(&world, "held_created").await?;
    let cri = &stage.cri;
    let pod = stage.recipes.pod("holder");
    let label = format!("io.kubernetes.pod.uid={}", metadata(&pod).uid);
    let name = name::sandbox_name(&metadata(&pod));
    stage
        .engine
        .docker(&[
            "create",
            "--name",
            &name,
            "--label",
            "io.kubernetes.docker.type=podsandbox",
            "--label",
            &label,
            &world.image,
        ])
        .await?;
    let sandbox = cri.run(&pod).await?;
    let main = stage.recipes.sleeper("main");
    let first = cri.create(&sandbox, &main, &pod).await?;
    let second = cri.create(&sandbox, &main, &pod).await?;
    ensure_eq!(first, second);
    cri.start(&second).await?;
    ensure_eq!(cri.containers().await?.len(), 1_usize);
    cri.clear().await?;
    stage.leaves_nothing().await
}

/// The container that has the requested name runs. dockbridge keeps this container. RunPodSandbox with the same
/// configuration returns the running pod. RunPodSandbox with another hostname, and a second CreateContainer,
/// return an error.
pub(crate) async fn held_by_a_running_one(world: World) -> Outcome {
    let stage = Stage::cni(&world, "held_running").await?;
    let cri = &stage.cri;
    let pod = stage.recipes.pod("holder");
    let main = stage.recipes.sleeper("main");
    let sandbox = cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, std::slice::from_ref(&main)).await?;
    ensure_eq!(cri.run(&pod).await?, sandbox);
    let mut other = pod.clone();
    other.hostname = "somebody-else".to_owned();
    let again = cri.run(&other).await.err().map(|refused| refused.code);
    ensure_eq!(again, Some(Code::AlreadyExists));
    let again = cri.create(&sandbox, &main, &pod).await.err().map(|refused| refused.code);
    ensure_eq!(again, Some(Code::AlreadyExists));
    ensure_eq!(cri.sandbox(&sandbox).await?.state(), cri::PodSandboxState::SandboxReady);
    ensure_eq!(cri.container(&ids[0]).await?.state(), cri::ContainerState::ContainerRunning);
    ensure_eq!(cri.sandboxes().await?.len(), 1_usize);
    ensure_eq!(cri.containers().await?.len(), 1_usize);
    cri.clear().await?;
    stage.leaves_nothing().await
}

/// Another program created the container that has the requested name. dockbridge does not remove that container,
/// even if all pods are removed.
pub(crate) async fn held_by_a_foreign_container(world: World) -> Outcome {
    let stage = Stage::cni(&world, "held_stranger").await?;
    let pod = stage.recipes.pod("holder");
    let name = name::sandbox_name(&metadata(&pod));
    let stranger = stage.engine.docker(&["create", "--name", &name, &world.image]).await?;
    let outcome = stage.cri.run(&pod).await;
    if let Err(refused) = &outcome {
        ensure_eq!(refused.code, Code::AlreadyExists);
    }
    ensure!(stage.engine.containers().await?.contains(&stranger), "the stranger was removed");
    stage.cri.clear().await?;
    ensure_eq!(stage.engine.containers().await?, vec![stranger.clone()]);
    stage.engine.docker(&["rm", &stranger]).await?;
    stage.leaves_nothing().await
}

fn metadata(pod: &cri::PodSandboxConfig) -> PodMetadata {
    let metadata = pod.metadata.clone().unwrap_or_default();
    PodMetadata {
        name: metadata.name,
        uid: metadata.uid,
        namespace: metadata.namespace,
        attempt: metadata.attempt,
    }
}
