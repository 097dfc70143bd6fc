//! Tests many pods at the same time, the load that many CRI calls put on the engine, and reads right after changes.

use std::time::Instant;

use dockbridge::wire::cri;
use tokio::task::JoinSet;

use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq},
    patience::is_slow,
    proxy::Proxy,
    stage::Stage,
    world::World,
};

/// Thirty pods are created at once, each pod gets its own address, and all are removed at once. On a slow
/// machine there are fewer pods, because runc waits only half a minute for systemd.
pub(crate) async fn thirty_at_once(world: World) -> Outcome {
    let stage = Stage::cni(&world, "thirty_at_once").await?;
    let crowd = if is_slow() { 6 } else { 30 };
    // The CNI plugin portmap creates its iptables chains for the first pod. It is a known fault that two runs
    // of portmap cannot create their chains at the same time.
    let first = stage.cri.run(&stage.recipes.pod("first")).await?;
    stage.cri.end(&first).await?;
    let mut starting = JoinSet::new();
    for number in 0..crowd {
        let (cri, pod) = (stage.cri.clone(), stage.recipes.pod(&format!("p{number}")));
        let main = stage.recipes.sleeper("main");
        starting.spawn(async move {
            let sandbox = cri.run(&pod).await?;
            let container = cri.create(&sandbox, &main, &pod).await?;
            cri.start(&container).await.map(|()| sandbox)
        });
    }
    let begun = Instant::now();
    let mut sandboxes = Vec::new();
    while let Some(joined) = starting.join_next().await {
        sandboxes.push(joined??);
    }
    println!("  {crowd} pods up in {:.1} s", begun.elapsed().as_secs_f32());
    let mut addresses = Vec::new();
    for id in &sandboxes {
        addresses.push(stage.cri.sandbox(id).await?.network.unwrap_or_default().ip);
    }
    addresses.sort_unstable();
    addresses.dedup();
    ensure_eq!(addresses.len(), crowd);
    ensure_eq!(stage.cri.sandboxes().await?.len(), crowd);
    let running = stage.cri.containers().await?;
    ensure_eq!(running.len(), crowd);
    ensure!(
        running.iter().all(|item| item.state() == cri::ContainerState::ContainerRunning),
        "not all are running"
    );
    remove_together(&stage.cri, sandboxes).await?;
    ensure!(stage.cri.sandboxes().await?.is_empty(), "sandboxes are left");
    stage.leaves_nothing().await
}

async fn remove_together(cri: &Cri, sandboxes: Vec<String>) -> Outcome {
    let (begun, crowd) = (Instant::now(), sandboxes.len());
    let mut ending = JoinSet::new();
    for id in sandboxes {
        let cri = cri.clone();
        ending.spawn(async move {
            cri.stop(&id).await?;
            cri.remove(&id).await
        });
    }
    while let Some(joined) = ending.join_next().await {
        joined??;
    }
    println!("  {crowd} pods gone in {:.1} s", begun.elapsed().as_secs_f32());
    Ok(())
}

/// A thousand CRI calls that only read cause no request to the engine.
pub(crate) async fn reads_cost_the_engine_nothing(world: World) -> Outcome {
    let socket = world.root.join("tmp/counted.sock");
    let proxy = Proxy::start(&socket, &world.docker)?;
    let stage = Stage::behind(&world, "reads", proxy.socket()).await?;
    let pod = stage.recipes.pod("read");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    ensure!(!proxy.take().is_empty(), "the proxy counts nothing at all");
    let background = proxy.until_quiet().await;
    let begun = Instant::now();
    for _ in 0..125 {
        read_everything(&stage.cri, &sandbox, &ids[0], &world.image).await?;
    }
    let (took, mut seen) = (begun.elapsed(), proxy.take());
    println!("  1,000 reads in {:.2} s; background before: {background:?}", took.as_secs_f32());
    // Pings and measurements are not caused by the calls: the store pings the engine every five seconds, and
    // the images are measured up to half a minute after a pull.
    let beats = seen.iter().filter(|line| line.starts_with("GET /_ping ")).count();
    ensure!(beats as u64 <= 1 + took.as_secs() / 5, "{beats} pings in {took:?}");
    seen.retain(|line| !line.starts_with("GET /_ping "));
    let measured = seen.iter().filter(|line| line.contains("/system/df ")).count();
    ensure!(measured <= 1, "images were measured {measured} times");
    seen.retain(|line| !line.contains("/system/df "));
    // Ten seconds after the store is complete, dockbridge searches for inspection containers of an ended dockbridge
    // process, with two requests.
    let looked_for = seen.iter().filter(|line| line.contains("image-inspection")).count();
    ensure!(looked_for <= 2, "left containers were looked for {looked_for} times");
    seen.retain(|line| !line.contains("image-inspection"));
    ensure!(seen.is_empty(), "the engine was asked: {seen:?}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Makes eight CRI calls that only read.
async fn read_everything(cri: &Cri, sandbox: &str, container: &str, image: &str) -> Outcome {
    cri.version().await?;
    cri.status(false).await?;
    ensure_eq!(cri.sandboxes().await?.len(), 1_usize);
    ensure_eq!(cri.containers().await?.len(), 1_usize);
    ensure_eq!(cri.sandbox(sandbox).await?.id, sandbox);
    ensure_eq!(cri.container(container).await?.id, container);
    ensure!(!cri.list_images().await?.is_empty(), "no images");
    ensure!(cri.image(image).await?.is_some(), "no image {image}");
    Ok(())
}

/// After each changing call has returned, the lists and the status show its effect.
pub(crate) async fn writes_are_read_at_once(world: World) -> Outcome {
    use cri::{ContainerState as C, PodSandboxState as S};
    let stage = Stage::cni(&world, "writes").await?;
    let cri = &stage.cri;
    for round in 0..5 {
        let pod = stage.recipes.pod(&format!("w{round}"));
        let sandbox = cri.run(&pod).await?;
        ensure_eq!(sandbox_state(cri, &sandbox).await?, Some(S::SandboxReady));
        let id = cri.create(&sandbox, &stage.recipes.sleeper("main"), &pod).await?;
        ensure_eq!(container_state(cri, &id).await?, Some(C::ContainerCreated));
        cri.start(&id).await?;
        ensure_eq!(container_state(cri, &id).await?, Some(C::ContainerRunning));
        cri.stop_container(&id, 5).await?;
        ensure_eq!(container_state(cri, &id).await?, Some(C::ContainerExited));
        cri.remove_container(&id).await?;
        ensure_eq!(container_state(cri, &id).await?, None);
        cri.stop(&sandbox).await?;
        ensure_eq!(sandbox_state(cri, &sandbox).await?, Some(S::SandboxNotready));
        cri.remove(&sandbox).await?;
        ensure_eq!(sandbox_state(cri, &sandbox).await?, None);
    }
    stage.leaves_nothing().await
}

/// The pod's state in ListPodSandbox, which must be the same as in PodSandboxStatus.
async fn sandbox_state(cri: &Cri, id: &str) -> Outcome<Option<cri::PodSandboxState>> {
    let items = cri.sandboxes().await?;
    let listed = items.iter().find(|item| item.id == id).map(cri::PodSandbox::state);
    let single = cri.sandbox(id).await.ok().map(|status| status.state());
    ensure_eq!(single, listed);
    Ok(listed)
}

/// The container's state in ListContainers, which must be the same as in ContainerStatus.
async fn container_state(cri: &Cri, id: &str) -> Outcome<Option<cri::ContainerState>> {
    let items = cri.containers().await?;
    let listed = items.iter().find(|item| item.id == id).map(cri::Container::state);
    let single = cri.container(id).await.ok().map(|status| status.state());
    ensure_eq!(single, listed);
    Ok(listed)
}
