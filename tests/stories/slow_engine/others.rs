//! Tests that a container whose inspects hang or fail does not affect other containers.

use std::{collections::BTreeSet, slice, time::Duration};

use dockbridge::wire::cri::ContainerState as C;

use crate::support::{
    cri_log::CriLog,
    failure::{Outcome, ensure_eq, fail},
    patience::Looks,
    slow_proxy::{Seen, SlowAnswers, SlowProxy},
    stage::Stage,
    world::World,
};

/// Two containers end. Inspects of the first container are never answered, and inspects of the second container fail.
/// At first dockbridge shows both containers as running, and another pod works. Then the engine recovers, and
/// dockbridge shows that both containers have ended.
pub(crate) async fn live_on(world: World) -> Outcome {
    let proxy = SlowProxy::start(&world.root.join("tmp/slow.sock"), &world.docker)?;
    let stage = Stage::behind(&world, "holds_up", proxy.socket()).await?;
    let pod = stage.recipes.pod("odd");
    let sandbox = stage.cri.run(&pod).await?;
    let two = ["silent", "failing"].map(|name| stage.recipes.sleeper(name));
    let ids = stage.up(&sandbox, &pod, &two).await?;
    let (silent, failing) = (&ids[0], &ids[1]);
    proxy.slow(SlowAnswers {
        hanging: BTreeSet::from([silent.clone()]),
        failing: BTreeSet::from([failing.clone()]),
        ..SlowAnswers::default()
    });
    stage.engine.docker(&["kill", silent, failing]).await?;
    let told = |seen: &Seen| seen.of(silent).asked > 0 && seen.of(failing).failed > 0;
    proxy.until(PATIENCE, told).await?;
    // The statuses are read right after the end: once an inspect has failed, the engine's next list shows the end.
    for id in &ids {
        ensure_eq!(stage.cri.container(id).await?.state(), C::ContainerRunning, "{id}");
    }
    lives(&stage).await?;
    proxy.until(PATIENCE, |seen| seen.of(silent).given_up > 0).await?;
    ensure_eq!(stage.cri.container(silent).await?.state(), C::ContainerRunning);
    proxy.quick();
    for id in &ids {
        until_ended(&stage, id).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Runs the whole lifecycle of another pod, with a command's output and a log.
async fn lives(stage: &Stage) -> Outcome {
    let pod = stage.recipes.pod("usual");
    let sandbox = stage.cri.run(&pod).await?;
    let main = stage.recipes.container("main", "echo here; sleep 600");
    let id = stage.up(&sandbox, &pod, slice::from_ref(&main)).await?.remove(0);
    let said = stage.cri.exec_sync(&id, &["sh", "-c", "echo in; echo out >&2; exit 3"], 10).await?;
    ensure_eq!((&said.stdout[..], &said.stderr[..]), (&b"in\n"[..], &b"out\n"[..]));
    ensure_eq!(said.exit_code, 3);
    stage.cri.stop_container(&id, 0).await?;
    ensure_eq!(stage.cri.container(&id).await?.state(), C::ContainerExited);
    ensure_eq!(CriLog::of(&pod, &main).text("stdout")?, "here\n");
    stage.cri.end(&sandbox).await
}

async fn until_ended(stage: &Stage, id: &str) -> Outcome {
    let mut looks = Looks::within(PATIENCE, Duration::from_millis(50));
    while looks.again().await {
        let status = stage.cri.container(id).await?;
        if status.state() == C::ContainerExited {
            ensure_eq!(status.exit_code, 137, "{id}");
            return Ok(());
        }
    }
    fail!("container {id} is not shown as ended");
}

/// Longer than dockbridge waits for an inspect, and longer than its pauses after the failed inspects of this story.
const PATIENCE: Duration = Duration::from_secs(30);
