//! Tests restarts of dockbridge and of the engine: pods are not affected, or dockbridge shows their state correctly.

use std::{fs, time::Duration};

use dockbridge::wire::cri::{self, ContainerState as C, PodSandboxState as S};
use tonic::Code;

use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq, fail},
    http,
    patience::Looks,
    pod,
    stage::Stage,
    world::World,
};

/// dockbridge is restarted after every call of a pod's lifecycle, alternately by a stop and by a kill.
pub(crate) async fn between_any_two_calls(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "between_calls").await?;
    let mut pod = stage.recipes.pod("steady");
    pod.port_mappings = vec![pod::port(18083, 80)];
    let web = stage.recipes.web("web", 80);

    let sandbox = stage.cri.run(&pod).await?;
    let before = stage.cri.sandbox(&sandbox).await?;
    stage.cri = stage.bridge.restart().await?;
    ensure_eq!(stage.cri.sandbox(&sandbox).await?, before);

    let id = stage.cri.create(&sandbox, &web, &pod).await?;
    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.container(&id).await?.state(), C::ContainerCreated);

    stage.cri.start(&id).await?;
    let before = stage.cri.container(&id).await?;
    stage.cri = stage.bridge.restart().await?;
    ensure_eq!(stage.cri.container(&id).await?, before);
    ensure!(http::get("127.0.0.1:18083").await?.contains("dockbridge world"), "no answer");

    stage.cri.stop_container(&id, 0).await?;
    let before = stage.cri.container(&id).await?;
    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.container(&id).await?, before);
    ensure_eq!(before.state(), C::ContainerExited);

    stage.cri.remove_container(&id).await?;
    stage.cri = stage.bridge.restart().await?;
    ensure!(stage.cri.containers().await?.is_empty(), "the container came back");

    stage.cri.stop(&sandbox).await?;
    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.sandbox(&sandbox).await?.state(), S::SandboxNotready);

    stage.cri.remove(&sandbox).await?;
    stage.cri = stage.bridge.restart().await?;
    ensure!(stage.cri.sandboxes().await?.is_empty(), "the sandbox came back");
    stage.leaves_nothing().await
}

/// The engine stops and starts, once gracefully and once after a kill. While the engine is down, dockbridge
/// answers Version, ListPodSandbox and PodSandboxStatus, and RunPodSandbox fails with Unavailable. After the engine has
/// started, the pod is NOTREADY, a new pod starts, and both can be removed.
pub(crate) async fn of_the_engine(world: World) -> Outcome {
    let stage = Stage::cni(&world, "of_the_engine").await?;
    let cri = &stage.cri;
    for way in ["stop", "kill"] {
        let pod = stage.recipes.pod(way);
        let sandbox = cri.run(&pod).await?;
        let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
        stage.engine.control(&[way]).await?;
        answers_without_engine(&stage, &sandbox).await?;
        stage.engine.control(&["start"]).await?;
        until_ready(cri).await?;
        until_not_ready(cri, &sandbox).await?;
        ensure_eq!(cri.container(&ids[0]).await?.state(), C::ContainerExited);
        let next = cri::PodSandboxConfig {
            metadata: pod
                .metadata
                .clone()
                .map(|metadata| cri::PodSandboxMetadata { attempt: 1, ..metadata }),
            ..pod
        };
        let fresh = cri.run(&next).await?;
        ensure_eq!(cri.sandbox(&fresh).await?.state(), S::SandboxReady);
        cri.clear().await?;
    }
    stage.leaves_nothing().await
}

async fn answers_without_engine(stage: &Stage, sandbox: &str) -> Outcome {
    let cri = &stage.cri;
    until_condition(cri, "RuntimeReady", false).await?;
    cri.version().await?;
    ensure_eq!(cri.sandboxes().await?.len(), 1_usize);
    ensure_eq!(cri.sandbox(sandbox).await?.id, sandbox);
    let refused = cri.run(&stage.recipes.pod("impossible")).await.err().map(|refused| refused.code);
    ensure_eq!(refused, Some(Code::Unavailable));
    Ok(())
}

/// Waits until the condition `RuntimeReady` is true.
pub(crate) async fn until_ready(cri: &Cri) -> Outcome {
    until_condition(cri, "RuntimeReady", true).await
}

async fn until_condition(cri: &Cri, kind: &str, wanted: bool) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await {
        let status = cri.status(false).await?.status.unwrap_or_default();
        if status.conditions.iter().any(|found| found.r#type == kind && found.status == wanted) {
            return Ok(());
        }
    }
    fail!("{kind} does not become {wanted}");
}

pub(crate) async fn until_not_ready(cri: &Cri, sandbox: &str) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await {
        if cri.sandbox(sandbox).await?.state() == S::SandboxNotready {
            return Ok(());
        }
    }
    fail!("sandbox {sandbox} is still READY");
}

/// The state directory is lost while a pod runs. dockbridge still shows the pod, and releases the pod's address when
/// the pod is removed.
pub(crate) async fn without_the_state(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "without_state").await?;
    let mut pod = stage.recipes.pod("orphan");
    pod.port_mappings = vec![pod::port(18084, 80)];
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.web("web", 80)]).await?;
    let before = stage.cri.sandbox(&sandbox).await?;
    stage.bridge.kill().await?;
    fs::remove_dir_all(&stage.folders.state)?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    ensure_eq!(stage.cri.sandbox(&sandbox).await?, before);
    ensure_eq!(stage.cri.container(&ids[0]).await?.state(), C::ContainerRunning);
    ensure!(http::get("127.0.0.1:18084").await?.contains("dockbridge world"), "no answer");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}
