//! Tests that the engine's image store can be switched to the other one and back on the same data root, while pods run.

use std::{fs, path::Path};

use serde_json::json;
use tokio::process::Command;
use tonic::Code;

use super::{
    LIVE_RESTORE, begin,
    crew::{Crew, Fate, Kind, Pod},
    import, saved_image, soon,
};
use crate::{
    restarts::until_ready,
    security::said,
    skips::{Lack, skip},
    support::{
        bridge::program,
        engine::Engine,
        failure::{Outcome, ensure, ensure_eq},
        leftovers::files_below,
        stage::Stage,
        world::World,
    },
};

/// While the engine uses the other image store, it does not list the pods, which continue to run. dockbridge's errors
/// and `dockbridge check` name the setting that brings the pods back, and the leases of the pods' addresses stay. Once
/// the store is switched back, the pods are shown as before.
pub(crate) async fn switched(world: World) -> Outcome {
    if world.docker_major < 25 {
        skip(Lack::YoungEngine);
        return Ok(());
    }
    let engine = Engine::of(world.clone());
    let own = fs::read_link(world.root.join("engine"))?;
    let image = saved_image(&world, &engine).await?;
    begin(&world, &engine, &own, &[LIVE_RESTORE]).await?;
    let file = world.root.join("docker/daemon.json");
    let before = fs::read_to_string(&file)?;
    let mut stage = Stage::cni(&world, "switched").await?;
    let crew = Crew::start(&stage, &[Kind::Port, Kind::Ended, Kind::Host], 3).await?;
    let leases = files_below(&world.cni_leases);

    let mut settings: serde_json::Value = serde_json::from_str(&before)?;
    settings["features"]["containerd-snapshotter"] = json!(!world.has_containerd_store);
    if let Some(settings) = settings.as_object_mut() {
        settings.remove("storage-driver");
    }
    restart(&stage, &file, &settings.to_string()).await?;
    let outcome = away(&mut stage, &crew, &image).await;
    ensure_eq!(files_below(&world.cni_leases), leases, "leases while the pods are not shown");

    restart(&stage, &file, &before).await?;
    outcome?;
    ensure_eq!(crew.fates(&engine).await?.pods, vec![Fate::Survives; 3]);
    for pod in &crew.pods {
        let mut looks = soon();
        while let Err(why) = Crew::shown(&stage.cri, pod).await? {
            ensure!(looks.again().await, "{why}");
        }
    }
    // The test runs no commands in the pods: Docker has unmounted the root file systems of containers that it
    // did not know, and runc needs these mounts on the host.
    for pod in &crew.pods {
        pod.serves(&stage).await?;
    }
    crew.end(&stage).await?;
    stage.leaves_nothing().await?;
    engine.control(&["back"]).await
}

async fn restart(stage: &Stage, file: &Path, settings: &str) -> Outcome {
    stage.engine.control(&["stop"]).await?;
    fs::write(file, settings)?;
    stage.engine.control(&["start", LIVE_RESTORE]).await?;
    until_ready(&stage.cri).await
}

/// Checks dockbridge while the engine has the other image store.
async fn away(stage: &mut Stage, crew: &Crew, image: &str) -> Outcome {
    let mut looks = soon();
    while !stage.cri.ready_sandboxes().await?.is_empty()
        || !stage.cri.containers().await?.is_empty()
    {
        ensure!(looks.again().await, "pods of the other store are still shown as running");
    }
    let way_back = format!("\"containerd-snapshotter\": {}", stage.world.has_containerd_store);
    let Pod { sandbox, ids, .. } = &crew.pods[0];
    let refused = stage.cri.stop(sandbox).await.map(|()| sandbox.clone());
    said(refused, (Code::FailedPrecondition, &way_back))?;
    let refused = stage.cri.remove(sandbox).await.map(|()| sandbox.clone());
    said(refused, (Code::FailedPrecondition, &way_back))?;
    let refused = stage.cri.exec_sync(&ids[0], &["true"], 10).await.map(|_| ids[0].clone());
    said(refused, (Code::NotFound, &way_back))?;
    let told = check(stage).await?;
    for part in ["pods among them: 3, containers still running: 8", &way_back] {
        ensure!(told.contains(part), "the check says no {part:?}: {told}");
    }
    ensure!(
        fs::read_to_string(stage.bridge.log())?.contains("docker does not list all pods"),
        "no log"
    );

    stage.cri = stage.bridge.crash().await?;
    until_ready(&stage.cri).await?;
    import(&stage.world, &stage.engine, image).await?;
    let pod = stage.recipes.pod("new");
    let sandbox = stage.cri.run(&pod).await?;
    stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    stage.cri.end(&sandbox).await
}

async fn check(stage: &Stage) -> Outcome<String> {
    let mut command = Command::new(program());
    command.arg("check").args(stage.bridge.command());
    let output = command.output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
