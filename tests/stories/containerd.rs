//! Tests with a killed containerd or shim, or with a containerd that keeps the task of an interrupted start.
//! Afterwards the container or the pod can be replaced, as kubelet does.

use std::{fs, path::PathBuf, time::Duration};

use dockbridge::wire::cri;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::sleep;
use tonic::Code;

use crate::support::{
    cri::Refused,
    failure::{Outcome, ensure, ensure_eq, fail},
    leftovers,
    patience::Looks,
    stage::Stage,
    world::World,
};

/// containerd still has the task directory of a container. The container cannot start, and the error names the
/// remedy. The container's replacement can start.
pub(crate) async fn has_a_task_left(world: World) -> Outcome {
    let stage = Stage::docker(&world, "task_left").await?;
    let (cri, pod) = (&stage.cri, stage.recipes.pod("left"));
    let sandbox = cri.run(&pod).await?;
    let mut main = stage.recipes.sleeper("main");
    let id = cri.create(&sandbox, &main, &pod).await?;
    let left = task_directory(&world, &id);
    fs::create_dir(&left)?;
    for _ in 0..2 {
        let Err(refused) = cri.start(&id).await else { fail!("it was started") };
        ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
        ensure!(refused.message.contains("must be removed and created again"), "{refused}");
    }
    let status = cri.container(&id).await?;
    ensure_eq!((status.exit_code, status.reason.as_str()), (128, "ContainerCannotRun"));
    replace(&stage, (&sandbox, &pod), &mut main, &id).await?;
    cri.end(&sandbox).await?;
    fs::remove_dir(&left)?;
    stage.leaves_nothing().await
}

/// containerd is killed while it starts a container and a pod. Each of the two calls succeeds or fails with
/// `UNAVAILABLE`. Afterwards the container can be replaced and the pod can be started.
pub(crate) async fn is_killed(world: World) -> Outcome {
    let stage = Stage::cni(&world, "containerd_killed").await?;
    let (cri, pod, other) = (&stage.cri, stage.recipes.pod("one"), stage.recipes.pod("other"));
    let sandbox = cri.run(&pod).await?;
    let mut main = stage.recipes.sleeper("main");
    let id = cri.create(&sandbox, &main, &pod).await?;
    let (starting, running) = (cri.clone(), cri.clone());
    let (started, asked) = (id.clone(), other.clone());
    let starting = tokio::spawn(async move { starting.start(&started).await });
    let running = tokio::spawn(async move { running.run(&asked).await });
    while !starting.is_finished() && !task_directory(&world, &id).exists() {
        sleep(Duration::from_millis(1)).await;
    }
    kill(stage.engine.containerd()?, Signal::SIGKILL)?;
    let (started, run) = (starting.await?, running.await?);
    println!("  StartContainer: {started:?}\n  RunPodSandbox: {run:?}");
    // Each of the two calls may have succeeded before the kill, or may have reached the restarted containerd.
    let refused: Vec<_> = [started.err(), run.err()].into_iter().flatten().collect();
    for refused in &refused {
        ensure_eq!(refused.code, Code::Unavailable, "{refused}");
    }
    let mut looks = until_containerd_is_back();
    let again = loop {
        match cri.start(&id).await {
            Err(refused) if refused.code == Code::Unavailable => {
                ensure!(looks.again().await, "still {refused}");
            }
            again => break again,
        }
    };
    // Docker 20.10 keeps the killed containerd's task, 26.1 rarely does, and 28.5 removes it.
    println!("  StartContainer again: {again:?}");
    if let Err(refused) = again {
        ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
    }
    replace(&stage, (&sandbox, &pod), &mut main, &id).await?;
    let other = loop {
        match cri.run(&other).await {
            Ok(other) => break other,
            Err(refused) => ensure!(looks.again().await, "still {refused}"),
        }
    };
    cri.end(&sandbox).await?;
    cri.end(&other).await?;
    // If a shim of this container is left, Docker no longer knows the shim. containerd removes the shim's files
    // after the shim has ended.
    if let Some(shim) = shims_of(&id).pop() {
        kill(shim, Signal::SIGKILL)?;
    }
    remove_cgroups(&world, &refused.iter().collect::<Vec<_>>());
    stage.leaves_nothing().await
}

/// The test kills the shim of a pod that is being started, and then the shims of a running pod. dockbridge shows the
/// container as exited and the pod as NOTREADY, and the pod can be replaced.
pub(crate) async fn loses_a_shim(world: World) -> Outcome {
    let stage = Stage::cni(&world, "shim_killed").await?;
    let (cri, pod) = (&stage.cri, stage.recipes.pod("one"));
    let before = shims();
    let (running, asked) = (cri.clone(), pod.clone());
    let running = tokio::spawn(async move { running.run(&asked).await });
    // The process that starts a shim ends quickly, perhaps before it gets the signal.
    let is_killed = |shim: &Pid| !before.contains(shim) && kill(*shim, Signal::SIGKILL).is_ok();
    while !running.is_finished() && !shims().iter().any(is_killed) {
        sleep(Duration::from_millis(1)).await;
    }
    let run = running.await?;
    println!("  RunPodSandbox: {run:?}");
    if let Ok(sandbox) = &run {
        // The pod may have become ready before the test found its shim.
        if let Ok(shim) = shim_of(&stage, sandbox).await {
            kill(shim, Signal::SIGKILL).unwrap_or(());
        }
        until_not_ready(&stage, sandbox).await?;
    }
    let sandbox = cri.run(&pod).await?;
    let mut main = stage.recipes.sleeper("main");
    let id = stage.up(&sandbox, &pod, &[main.clone()]).await?.remove(0);
    let (shim, pause) = (shim_of(&stage, &id).await?, shim_of(&stage, &sandbox).await?);
    kill(shim, Signal::SIGKILL)?;
    let mut looks = Looks::every(Duration::from_millis(50));
    while cri.container(&id).await?.state() != cri::ContainerState::ContainerExited {
        ensure!(looks.again().await, "{id} is not shown as ended");
    }
    ensure_eq!(cri.container(&id).await?.exit_code, 137);
    // Since Docker 24, all containers of a pod share one shim.
    if shim != pause {
        replace(&stage, (&sandbox, &pod), &mut main, &id).await?;
        kill(pause, Signal::SIGKILL)?;
    }
    until_not_ready(&stage, &sandbox).await?;
    cri.end(&sandbox).await?;
    let sandbox = cri.run(&pod).await?;
    stage.up(&sandbox, &pod, &[main]).await?;
    cri.end(&sandbox).await?;
    remove_cgroups(&world, run.as_ref().err().as_slice());
    stage.leaves_nothing().await
}

/// Removes the cgroups of containers that were not started because their `runc create` was killed: by a shim that lost
/// containerd, or with the shim. kubelet removes these cgroups with the pod's cgroup. A cgroup that still has a process
/// cannot be removed, so the search for leftovers finds it.
fn remove_cgroups(world: &World, refused: &[&Refused]) {
    for cgroup in leftovers::container_cgroups(&world.cgroup) {
        let id = cgroup.rsplit('/').next().unwrap_or_default();
        let is_cut_off = refused.iter().any(|refused| refused.message.contains(id));
        if is_cut_off && fs::remove_dir(&cgroup).is_ok() {
            println!("  left by runc create: {cgroup}");
        }
    }
}

/// Replaces a container in kubelet's order: creates and starts the next attempt, then removes the old container.
async fn replace(
    stage: &Stage,
    (sandbox, pod): (&str, &cri::PodSandboxConfig),
    container: &mut cri::ContainerConfig,
    old: &str,
) -> Outcome {
    container.metadata.get_or_insert_default().attempt += 1;
    let id = stage.up(sandbox, pod, std::slice::from_ref(container)).await?.remove(0);
    stage.cri.remove_container(old).await?;
    let answer = stage.cri.exec_sync(&id, &["echo", "replaced"], 60).await?;
    ensure_eq!(answer.stdout, b"replaced\n");
    let left = stage.cri.containers().await?;
    ensure!(left.iter().all(|one| one.id != old), "{old} is still listed");
    Ok(())
}

/// The engine notices the loss of containerd after a few seconds and starts a new containerd.
fn until_containerd_is_back() -> Looks {
    Looks::every(Duration::from_millis(100))
}

async fn until_not_ready(stage: &Stage, sandbox: &str) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(50));
    while stage.cri.sandbox(sandbox).await?.state() == cri::PodSandboxState::SandboxReady {
        ensure!(looks.again().await, "sandbox {sandbox} is still READY");
    }
    Ok(())
}

/// The shim of a container, which is the parent of the container's main process.
async fn shim_of(stage: &Stage, container: &str) -> Outcome<Pid> {
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", container]).await?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Ok(Pid::from_raw(parent.unwrap_or_default().trim().parse()?))
}

/// The directory in which containerd keeps a container's task.
fn task_directory(world: &World, id: &str) -> PathBuf {
    let tasks = "docker/exec/containerd/daemon/io.containerd.runtime.v2.task/moby";
    world.root.join(tasks).join(id)
}

/// The processes of containerd's shims in this world.
fn shims() -> Vec<Pid> {
    shims_of("-id")
}

/// The processes of shims whose command line has this argument.
fn shims_of(argument: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_wanted = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split('\0');
        words.next().is_some_and(|program| program.contains("containerd-shim"))
            && words.any(|word| word == argument)
    };
    pids.filter(is_wanted).map(Pid::from_raw).collect()
}
