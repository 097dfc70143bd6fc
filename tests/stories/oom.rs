//! Tests OOM kills: the first reason that a container's status shows is right and survives a restart of dockbridge.
//! On cgroup v1, an OOM kill may show as `Error`, because only the engine reports it there (decision 0022). Ends by
//! SIGKILL without an OOM kill do not show as OOM kills.

use std::{path::Path, time::Duration};

use dockbridge::wire::cri::{self, ContainerState};
use tokio::process::Command;

use crate::support::{
    cri::Cri,
    cri_log::CriLog,
    failure::{Failure, Outcome, ensure, ensure_eq},
    kernel::Kernel,
    patience::{Looks, is_slow},
    stage::Stage,
    world::World,
};

/// The OOM killer kills the main process, in some containers right after the start and in others a second later.
pub(crate) async fn of_the_main_process(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "oom").await?;
    let pod = stage.recipes.pod("greedy");
    let sandbox = stage.cri.run(&pod).await?;
    let (mut killed, mut shown) = (Vec::new(), Vec::new());
    for number in 0..if is_slow() { 3 } else { 6 } {
        for (name, line) in [("at-once", HOG.to_owned()), ("later", format!("sleep 1; {HOG}"))] {
            let greedy = small(&stage, &format!("{name}-{number}"), &line);
            killed.extend(stage.up(&sandbox, &pod, &[greedy]).await?);
        }
        for id in killed.iter().skip(shown.len()) {
            shown.push(out_of_memory(&stage, id).await?);
        }
    }
    stage.cri = stage.bridge.restart().await?;
    for (id, before) in killed.iter().zip(&shown) {
        ensure_eq!(&first_end(&stage.cri, id).await?, before, "after a restart");
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The OOM killer kills a child process. The container ends only if the main process then ends.
pub(crate) async fn of_a_child(world: World) -> Outcome {
    let stage = Stage::cni(&world, "oom_child").await?;
    let pod = stage.recipes.pod("parents");
    let sandbox = stage.cri.run(&pod).await?;
    let gives_up = small(&stage, "gives-up", &format!("sh -c '{HOG}'; exit $?"));
    let id = stage.up(&sandbox, &pod, &[gives_up]).await?.remove(0);
    out_of_memory(&stage, &id).await?;

    let goes_on = small(&stage, "goes-on", &format!("sh -c '{HOG}'; touch /on; sleep 600"));
    let lasting = stage.up(&sandbox, &pod, &[goes_on]).await?.remove(0);
    // The kernel might kill the test's `docker exec` instead of the child, so the test first waits for the OOM kill.
    let kernel = Kernel::of(&stage.engine, &lasting).await?;
    let mut looks = Looks::every(Duration::from_millis(50));
    while kernel.kills()? == 0 {
        ensure!(looks.again().await, "the child lives");
    }
    stage.engine.inside(&lasting, "until [ -e /on ]; do sleep 0.1; done").await?;
    ensure_eq!(stage.cri.container(&lasting).await?.state(), ContainerState::ContainerRunning);
    // The container `other` is killed from the host. The earlier OOM kill in the container `goes-on` must not
    // explain the exit of `other`.
    let other = stage.up(&sandbox, &pod, &[stage.recipes.container("other", "sleep 600")]).await?;
    kill(&stage, &other[0]).await?;
    ensure_eq!(first_end(&stage.cri, &other[0]).await?, killed_somehow());
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// After an OOM kill, Docker restarts the container, and the next run ends on its own with code 137. The status
/// does not show the end of the next run as an OOM kill.
pub(crate) async fn of_an_earlier_run(world: World) -> Outcome {
    let stage = Stage::cni(&world, "oom_again").await?;
    let pod = stage.recipes.pod("again");
    let sandbox = stage.cri.run(&pod).await?;
    for number in 0..3 {
        let line = "[ -e /on ] && exit 137; touch /on; until [ -e /go ]; do sleep 0.1; done";
        let line = format!("{line}; {HOG}");
        let twice = small(&stage, &format!("twice-{number}"), &line);
        let id = stage.up(&sandbox, &pod, &[twice]).await?.remove(0);
        stage.engine.docker(&["update", "--restart=on-failure:1", &id]).await?;
        stage.engine.let_go(&id, "/go").await?;
        ensure_eq!(first_end(&stage.cri, &id).await?, killed_somehow());
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The status does not show an OOM kill if a container exits with code 137 without one.
pub(crate) async fn of_nobody(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "no_oom").await?;
    let pod = stage.recipes.pod("sated");
    let sandbox = stage.cri.run(&pod).await?;
    // An OOM kill of another container, which the pod's cgroup counts, comes first.
    let greedy = stage.up(&sandbox, &pod, &[small(&stage, "greedy", HOG)]).await?.remove(0);
    out_of_memory(&stage, &greedy).await?;
    let containers = [
        stage.recipes.container("says-so", "exit 137"),
        stage.recipes.container("killed-outside", "sleep 600"),
        stage.recipes.container("killed-by-the-engine", "sleep 600"),
        stage.recipes.container("stopped", "sleep 600"),
    ];
    let ids = stage.up(&sandbox, &pod, &containers).await?;
    kill(&stage, &ids[1]).await?;
    stage.engine.docker(&["kill", &ids[2]]).await?;
    stage.cri.stop_container(&ids[3], 0).await?;
    for id in &ids {
        ensure_eq!(first_end(&stage.cri, id).await?, killed_somehow());
    }
    stage.cri = stage.bridge.restart().await?;
    for id in &ids {
        ensure_eq!(first_end(&stage.cri, id).await?, killed_somehow(), "after a restart");
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// In Docker's events, labels of a container, including those of its image, replace attributes such as `signal` and
/// `exitCode`. The statuses still have the right names, reasons and exit codes.
pub(crate) async fn beside_labels_named_like_attributes(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "oom_labels").await?;
    let made = stage.engine.docker(&["create", &world.image, "true"]).await?;
    for (number, signal) in ["9", "15", "none"].into_iter().enumerate() {
        let image = format!("labelled.test/own:{number}");
        let labels = format!("LABEL signal={signal} {LABELS}");
        stage.engine.docker(&["commit", "-c", &labels, &made, &image]).await?;
        let pod = stage.recipes.pod(&format!("labelled-{number}"));
        let sandbox = stage.cri.run(&pod).await?;
        let mut containers = [
            small(&stage, "greedy", HOG),
            // The label `signal=9` replaces the attribute `signal` in the event of Docker's SIGTERM, so the event looks
            // like that of a SIGKILL. The kernel's OOM killer ends this container, not Docker's signal.
            small(&stage, "greedy-when-stopped", &format!("trap '{HOG}' TERM; {IDLE}")),
            stage.recipes.container("deaf", &format!("trap '' TERM; {IDLE}")),
            stage.recipes.container("obeys", &format!("trap 'exit 3' TERM; {IDLE}")),
        ];
        for container in &mut containers {
            container.image = Some(cri::ImageSpec { image: image.clone(), ..Default::default() });
        }
        let ids = stage.up(&sandbox, &pod, &containers).await?;
        let told = stage.cri.exec_sync(&ids[2], &["sh", "-c", "echo out; exit 5"], 60).await?;
        ensure_eq!((told.exit_code, told.stdout), (5, b"out\n".to_vec()));
        for (id, container) in ids.iter().zip(&containers).skip(1) {
            CriLog::of(&pod, container).until("ready\n").await?;
            let grace = if *id == ids[2] { 1 } else { 60 };
            stage.cri.stop_container(id, grace).await?;
        }
        let mut ends = Vec::new();
        for (id, name) in ids.iter().zip(["greedy", "greedy-when-stopped", "deaf", "obeys"]) {
            ends.push(match name {
                "deaf" | "obeys" => first_end(&stage.cri, id).await?,
                _ => out_of_memory(&stage, id).await?,
            });
            let status = stage.cri.container(id).await?;
            ensure_eq!(status.metadata.unwrap_or_default().name, name);
            ensure_eq!(status.image.unwrap_or_default().image, image);
        }
        ensure_eq!(ends[2..], [killed_somehow(), ("Error".to_owned(), 3)]);
        stage.cri = stage.bridge.restart().await?;
        for (id, before) in ids.iter().zip(&ends) {
            ensure_eq!(&first_end(&stage.cri, id).await?, before, "after a restart");
        }
        stage.cri.clear().await?;
        stage.cri.remove_image(&image).await?;
    }
    stage.engine.docker(&["rm", &made]).await?;
    stage.leaves_nothing().await
}

/// Waits for the end of a container that ran out of memory, and returns the reason and exit code that its status
/// shows first: those of an OOM kill, or on cgroup v1 `Error` and 137 if the engine has missed the OOM kill.
async fn out_of_memory(stage: &Stage, id: &str) -> Outcome<(String, i32)> {
    let shown = first_end(&stage.cri, id).await?;
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if unified || shown != killed_somehow() {
        ensure_eq!(shown, no_memory());
        return Ok(shown);
    }
    let told = stage.engine.docker(&["inspect", "-f", "{{.State.OOMKilled}}", id]).await?;
    ensure_eq!(told.trim(), "false", "the engine knew");
    Ok(shown)
}

/// Waits for the container's end, and returns the reason and exit code that its status shows first.
async fn first_end(cri: &Cri, id: &str) -> Outcome<(String, i32)> {
    let mut looks = Looks::every(Duration::from_millis(2));
    while looks.again().await {
        let status = cri.container(id).await?;
        if status.state() == ContainerState::ContainerExited {
            return Ok((status.reason, status.exit_code));
        }
    }
    Err(Failure(format!("{id} does not end")))
}

/// Kills the container's main process from the host, so that the engine does not know of the kill.
async fn kill(stage: &Stage, id: &str) -> Outcome {
    let pid = Kernel::of(&stage.engine, id).await?.pid;
    Command::new("kill").args(["-9", &pid]).status().await?;
    Ok(())
}

/// A container with little memory and no swap.
fn small(stage: &Stage, name: &str, line: &str) -> cri::ContainerConfig {
    let mut container = stage.recipes.container(name, line);
    let linux = container.linux.get_or_insert_default();
    let resources = linux.resources.get_or_insert_default();
    (resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes) = (LITTLE, LITTLE);
    container
}

fn no_memory() -> (String, i32) {
    ("OOMKilled".to_owned(), 137)
}

fn killed_somehow() -> (String, i32) {
    ("Error".to_owned(), 137)
}

const LITTLE: i64 = 32 << 20;
/// Labels that have the names of attributes of container events.
const LABELS: &str =
    "exitCode=77 execID=none execDuration=9 name=other image=other container=other";
/// A shell line that ends only by a signal.
const IDLE: &str = "echo ready; while :; do sleep 1 & wait $!; done";
/// A shell line that needs far more memory than the container's limit.
const HOG: &str = "exec dd if=/dev/zero of=/dev/null bs=128M count=4";
