//! Tests with a pause container or a dockbridge that ends unexpectedly.

use std::time::Duration;

use dockbridge::wire::cri;
use rand::Rng;
use tokio::{task::JoinSet, time::sleep};

use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq, fail},
    http,
    patience::{Looks, patient},
    pod,
    random::seeded,
    stage::Stage,
    world::World,
};

/// After another program has killed the pause container, the pod becomes NOTREADY, and StopPodSandbox and
/// RemovePodSandbox release its network and files.
pub(crate) async fn sandbox_killed(world: World) -> Outcome {
    gone_behind_our_back(world, "sandbox_killed", &["kill"]).await
}

/// After another program has removed the pause container, StopPodSandbox still releases the pod's network.
pub(crate) async fn sandbox_removed(world: World) -> Outcome {
    gone_behind_our_back(world, "sandbox_removed", &["rm", "-f"]).await
}

async fn gone_behind_our_back(world: World, story: &str, how: &[&str]) -> Outcome {
    let stage = Stage::cni(&world, story).await?;
    let cri = &stage.cri;
    let mut pod = stage.recipes.pod("victim");
    pod.port_mappings = vec![pod::port(18085, 80)];
    let sandbox = cri.run(&pod).await?;
    stage.up(&sandbox, &pod, &[stage.recipes.web("web", 80)]).await?;
    stage.engine.docker(&[how, &[sandbox.as_str()]].concat()).await?;
    until_listed_not_ready(cri, &sandbox).await?;
    let item = cri.sandboxes().await?.into_iter().find(|item| item.id == sandbox);
    let item = item.unwrap_or_default();
    ensure_eq!(item.metadata, pod.metadata);
    ensure_eq!(item.labels, pod.labels);
    ensure!(item.created_at > 0, "created_at is {}", item.created_at);
    cri.stop(&sandbox).await?;
    cri.remove(&sandbox).await?;
    ensure!(cri.sandboxes().await?.is_empty(), "the sandbox is still listed");
    ensure!(cri.containers().await?.is_empty(), "its container is still listed");
    stage.leaves_nothing().await
}

/// Another program kills a pause container on the engine's own network, and starts it again. After the kill, the
/// pod is NOTREADY and has no address. After the start, the pod is READY and has a new address, at which a new
/// container answers.
pub(crate) async fn sandbox_restarted(world: World) -> Outcome {
    let stage = Stage::docker(&world, "sandbox_restarted").await?;
    let cri = &stage.cri;
    let mut pod = stage.recipes.pod("again");
    pod.port_mappings = vec![pod::port(18086, 80)];
    let sandbox = cri.run(&pod).await?;
    let before = address(cri, &sandbox).await?;
    // Another container takes the pod's address, so that the pod gets a new one.
    stage.engine.docker(&["kill", &sandbox]).await?;
    until_listed_not_ready(cri, &sandbox).await?;
    ensure_eq!(address(cri, &sandbox).await?, "");
    let thief = ["run", "-d", "--entrypoint", "sleep", &world.image, "600"];
    let thief = stage.engine.docker(&thief).await?;
    stage.engine.docker(&["start", &sandbox]).await?;
    let told = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let now = stage.engine.docker(&["inspect", "-f", told, &sandbox]).await?;
    ensure!(now != before && !now.is_empty(), "was {before}, is {now}");
    let mut looks = Looks::every(Duration::from_millis(50));
    while address(cri, &sandbox).await? != now {
        ensure!(looks.again().await, "the pod is still not at {now}");
    }
    ensure_eq!(cri.sandbox(&sandbox).await?.state(), cri::PodSandboxState::SandboxReady);
    stage.up(&sandbox, &pod, &[stage.recipes.web("web", 80)]).await?;
    for at in [format!("{now}:80"), "127.0.0.1:18086".to_owned()] {
        let answer = http::get(&at).await?;
        ensure!(answer.contains("dockbridge world"), "{at} says {answer:?}");
    }
    stage.engine.docker(&["rm", "-f", &thief]).await?;
    cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

async fn address(cri: &Cri, sandbox: &str) -> Outcome<String> {
    Ok(cri.sandbox(sandbox).await?.network.unwrap_or_default().ip)
}

async fn until_listed_not_ready(cri: &Cri, sandbox: &str) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(50));
    while looks.again().await {
        let items = cri.sandboxes().await?;
        let item = items.iter().find(|item| item.id == sandbox);
        if item.is_some_and(|item| item.state() == cri::PodSandboxState::SandboxNotready) {
            return Ok(());
        }
    }
    fail!("sandbox {sandbox} is not listed as NOTREADY");
}

/// dockbridge is killed while pods are created and removed. After each kill, each listed pod has its metadata, each
/// listed container has a listed pod, and all pods can be stopped and removed without leftovers.
pub(crate) async fn at_random_moments(world: World) -> Outcome {
    let mut random = seeded();
    let mut stage = Stage::cni(&world, "at_random").await?;
    for round in 0..15 {
        let busy = come_and_go(&stage, round);
        let moment = patient(Duration::from_millis(random.random_range(0..600)));
        sleep(moment).await;
        stage.cri = stage.bridge.crash().await?;
        drop(busy);
        all_can_go(&stage, round, moment).await?;
    }
    stage.leaves_nothing().await
}

/// Creates and removes three pods at the same time. The calls may fail when dockbridge is killed.
fn come_and_go(stage: &Stage, round: u32) -> JoinSet<()> {
    let mut lives = JoinSet::new();
    for number in 0..3 {
        let mut pod = stage.recipes.pod(&format!("r{round}n{number}"));
        pod.port_mappings = vec![pod::port(18100 + number, 80)];
        let (cri, main) = (stage.cri.clone(), stage.recipes.sleeper("main"));
        lives.spawn(async move { drop(life(&cri, &pod, &main).await) });
    }
    lives
}

async fn life(cri: &Cri, pod: &cri::PodSandboxConfig, main: &cri::ContainerConfig) -> Outcome {
    let sandbox = cri.run(pod).await?;
    let id = cri.create(&sandbox, main, pod).await?;
    cri.start(&id).await?;
    cri.stop(&sandbox).await?;
    cri.remove(&sandbox).await?;
    Ok(())
}

async fn all_can_go(stage: &Stage, round: u32, moment: Duration) -> Outcome {
    let at = format!("round {round}, killed after {moment:?}");
    let sandboxes = stage.cri.sandboxes().await?;
    for item in &sandboxes {
        ensure!(item.metadata.is_some() && item.created_at > 0, "{at}: listed as {item:?}");
        stage.cri.sandbox(&item.id).await?;
    }
    for item in stage.cri.containers().await? {
        let known = sandboxes.iter().any(|sandbox| sandbox.id == item.pod_sandbox_id);
        ensure!(known, "{at}: a container without its sandbox: {item:?}");
    }
    // A create that was in progress when its caller died may still take effect in the engine.
    let mut left = Vec::new();
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await {
        stage.cri.clear().await?;
        left = stage.engine.containers().await?;
        if left.is_empty() {
            return Ok(());
        }
    }
    fail!("{at}: the engine still has {left:?}");
}
