//! Tests CheckpointPod and RestorePod with a real CRIU: two containers of a pod count together over short
//! connections, and continue to count in the restored pod.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::wire::cri;
use tonic::Code;

use crate::{
    checkpoints::{held_program, nothing_left, stage},
    restarts::until_ready,
    restores, security,
    support::{
        cri::Cri,
        failure::{Outcome, ensure, ensure_eq},
        leftovers::files_below,
        patience::Looks,
        remote::{Session, WEBSOCKET, Wish},
        stage::Stage,
        stated::is_full_size,
        world::World,
    },
};

/// The two containers of a pod count over short connections and write the numbers to a volume. In each restored pod,
/// both containers continue to count, and neither begins more than one number ahead of the other. The address of a
/// restored pod differs from that of the original pod. In the first restored pod, exec, logs and statistics work,
/// also after restarts of dockbridge and of the engine.
pub(crate) async fn count_on_together(world: World) -> Outcome {
    let Some((mut stage, archive)) = restores::stage(&world, "pod_restore").await? else {
        return Ok(());
    };
    stage.engine.control(&["restart", LIVE_RESTORE]).await?;
    until_ready(&stage.cri).await?;
    let (sandbox, ids) = counters(&stage).await?;
    let rounds = if is_full_size() { 200 } else { 3 };
    let mut refused = 0;
    for round in 0..rounds {
        let checkpoint = archive.with_file_name(format!("pod-{round}"));
        refused += checkpoint_between(&stage.cri, &sandbox, &ids, &checkpoint).await?;
        ensure_eq!(
            files_below(&checkpoint).len(),
            3,
            "an archive for each container, and the index"
        );
        let data = volume(&stage, &format!("data-{round}"))?;
        let pod = stage.recipes.pod("later");
        let containers = configs(&stage, &data);
        let restored = stage.cri.restore_pod(&checkpoint, &pod, &containers).await?;
        let again = stage.cri.restore_pod(&checkpoint, &pod, &containers).await?;
        ensure_eq!(again, restored, "a repeated call makes another pod");
        let later = restored.pod_sandbox_id.clone();
        for one in &restored.restored_containers {
            let state = stage.cri.container(&one.container_id).await?.state();
            ensure_eq!(state, cri::ContainerState::ContainerCreated);
            stage.cri.start(&one.container_id).await?;
        }
        together(&data).await?;
        let address = async |id: &str| {
            Ok::<_, crate::support::failure::Failure>(
                stage.cri.sandbox(id).await?.network.unwrap_or_default().ip,
            )
        };
        ensure!(address(&later).await? != address(&sandbox).await?, "the address is the same");
        if round == 0 {
            let ids = restored.restored_containers.iter().map(|one| one.container_id.clone());
            let ids: Vec<_> = ids.collect();
            works(&mut stage, &ids).await?;
            together(&data).await?;
            for id in &ids {
                stage.cri.stop_container(id, 10).await?;
                ensure_eq!(
                    stage.cri.container(id).await?.exit_code,
                    0,
                    "it did not stop by itself"
                );
                stage.cri.remove_container(id).await?;
            }
        }
        stage.cri.end(&later).await?;
        ensure_eq!(files_below(&stage.folders.state.join("restores")), Vec::<String>::new());
        fs::remove_dir_all(&checkpoint)?;
    }
    println!("  {rounds} checkpoints, and {refused} refused because a connection was open");
    together(&stage.folders.shared.join("data")).await?;
    stage.cri.end(&sandbox).await?;
    stage.engine.control(&["restart"]).await?;
    until_ready(&stage.cri).await?;
    stage.leaves_nothing().await
}

/// dockbridge is killed during CheckpointPod. The restarted dockbridge refuses a container checkpoint in this pod while
/// the program `dump-container` runs, and no part of the pod checkpoint is left.
pub(crate) async fn of_a_killed_dockbridge(world: World) -> Outcome {
    let Some(mut stage) = stage(&world, "killed_pod_checkpoint").await? else { return Ok(()) };
    let (sandbox, ids) = counters(&stage).await?;
    let directory = stage.folders.shared.join("killed");
    fs::create_dir(&directory)?;
    let (cri, pod, containers) = (stage.cri.clone(), sandbox.clone(), ids.clone());
    let to = directory.clone();
    let made = tokio::spawn(async move { cri.checkpoint_pod(&pod, &containers, &to).await });
    let program = held_program(&stage, &sandbox).await?;
    stage.cri = stage.bridge.crash().await?;
    ensure!(made.await?.is_err(), "the killed dockbridge answered");
    let other = stage.folders.shared.join("other.tar");
    let refused = stage.cri.checkpoint(&ids[1], &other, 0).await;
    let failed = (Code::FailedPrecondition, "already being made");
    security::said(refused.map(|()| String::new()), failed)?;
    drop(program);
    nothing_left(&stage).await?;
    ensure_eq!(files_below(&directory), Vec::<String>::new());
    let data = stage.folders.shared.join("data");
    together(&data).await?;
    checkpoint_between(&stage.cri, &sandbox, &ids, &directory).await?;
    for name in ["ping.tar", "pong.tar", "pod.json"] {
        let mode = fs::metadata(directory.join(name))?.permissions().mode() & 0o777;
        ensure_eq!(mode, 0o600, "{name}");
    }
    let full = stage.cri.checkpoint_pod(&sandbox, &ids, &directory).await;
    let failed = (Code::FailedPrecondition, "is not empty");
    security::said(full.map(|()| String::new()), failed)?;
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// Checks exec, logs and statistics of the containers, before and after restarts of dockbridge and engine.
async fn works(stage: &mut Stage, ids: &[String]) -> Outcome {
    for restarted in ["nothing", "dockbridge", "the engine", "dockbridge"] {
        match restarted {
            "dockbridge" => stage.cri = stage.bridge.restart().await?,
            "the engine" => {
                stage.engine.control(&["restart", LIVE_RESTORE]).await?;
                until_ready(&stage.cri).await?;
            }
            _ => {}
        }
        for id in ids {
            let told = stage.cri.exec_sync(id, &["hostname"], 0).await?;
            ensure_eq!(String::from_utf8_lossy(&told.stdout).trim(), "later");
            let status = stage.cri.container(id).await?;
            ensure_eq!(status.state(), cri::ContainerState::ContainerRunning);
            let log = || fs::read_to_string(&status.log_path);
            let before = log()?.len();
            let mut looks = Looks::every(Duration::from_millis(50));
            while !log()?.get(before..).is_some_and(|new| new.contains("stdout F ")) {
                ensure!(
                    looks.again().await,
                    "after a restart of {restarted}: the log stands still"
                );
            }
            let memory = stage.cri.stats(id).await?.memory.unwrap_or_default();
            ensure!(memory.working_set_bytes.is_some(), "there are no statistics");
            let line = "read line; echo \"got $line\"";
            let mut session = Session::shell(&stage.cri, WEBSOCKET, id, line, Wish::Pipes).await?;
            session.send("a word\n").await?;
            ensure_eq!(session.collect().await?.stdout, "got a word\n");
        }
    }
    Ok(())
}

/// Repeats CheckpointPod until a call succeeds, because CRIU refuses to save a container with an open connection.
/// Returns how many calls failed. Fails if 30 calls fail.
async fn checkpoint_between(cri: &Cri, sandbox: &str, ids: &[String], to: &Path) -> Outcome<u32> {
    fs::create_dir_all(to)?;
    let mut refused = 0;
    loop {
        let Err(error) = cri.checkpoint_pod(sandbox, ids, to).await else { return Ok(refused) };
        ensure!(error.message.contains("criu/"), "{}", error.message);
        ensure_eq!(files_below(to), Vec::<String>::new());
        refused += 1;
        ensure!(refused < 30, "{}", error.message);
    }
}

/// Starts a pod with two containers, waits until both have counted, and returns the ids of the pod and the containers.
async fn counters(stage: &Stage) -> Outcome<(String, Vec<String>)> {
    let data = volume(stage, "data")?;
    let pod = stage.recipes.pod("counters");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &configs(stage, &data)).await?;
    together(&data).await?;
    Ok((sandbox, ids))
}

/// The two containers: `pong` counts the lines that `ping` sends, and answers each. `ping` counts the answers.
fn configs(stage: &Stage, data: &Path) -> [cri::ContainerConfig; 2] {
    let ping = "trap 'exit 0' TERM; { n=1; while :; do got=$(echo $n | nc -w 1 127.0.0.1 9099); \
                [ \"$got\" = $n ] && echo $n >>/data/ping && echo $n && n=$((n + 1)); \
                sleep 0.1; done; } & wait";
    let pong = "trap 'exit 0' TERM; printf '#!/bin/sh\nread n; echo $n; echo $n >&3' >/answer; \
                chmod +x /answer; { last=0; while :; do n=$(nc -l -p 9099 -e /answer 3>&1 </dev/null); \
                [ \"$n\" = $((last + 1)) ] && last=$n && echo $n >>/data/pong && echo $n; done; } & wait";
    [("pong", pong), ("ping", ping)].map(|(name, line)| {
        let mut container = stage.recipes.container(name, line);
        container.mounts.push(cri::Mount {
            container_path: "/data".to_owned(),
            host_path: data.display().to_string(),
            ..cri::Mount::default()
        });
        container
    })
}

fn volume(stage: &Stage, name: &str) -> Outcome<PathBuf> {
    let data = stage.folders.shared.join(name);
    fs::create_dir_all(&data)?;
    for file in ["ping", "pong"] {
        fs::write(data.join(file), "")?;
    }
    Ok(data)
}

/// Waits until both containers have continued to count. Fails if a container has left out a number, or if the first
/// numbers of the containers differ by more than one.
async fn together(data: &Path) -> Outcome {
    let count = |name: &str| {
        let text = fs::read_to_string(data.join(name))?;
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        Ok::<Vec<u32>, crate::support::failure::Failure>(
            whole.lines().map(str::parse).collect::<Result<_, _>>()?,
        )
    };
    let before = count("ping")?.len().max(count("pong")?.len());
    let mut looks = Looks::every(Duration::from_millis(50));
    while count("ping")?.len().min(count("pong")?.len()) < before + 4 {
        ensure!(
            looks.again().await,
            "they stand still at {:?} and {:?}",
            count("ping")?.last(),
            count("pong")?.last()
        );
    }
    let mut first = Vec::new();
    for name in ["ping", "pong"] {
        let numbers = count(name)?;
        ensure!(
            numbers.is_sorted_by(|one, next| one + 1 == *next),
            "{name} has a gap: {numbers:?}"
        );
        first.extend(numbers.first().copied());
    }
    ensure!(first[0].abs_diff(first[1]) <= 1, "they began at {first:?}");
    Ok(())
}

const LIVE_RESTORE: &str = "--live-restore";

/// How long a story with 200 pod checkpoints and restores may take: 2,455 s were seen on a busy machine.
pub(crate) const FULL_SIZE_PATIENCE: Duration = Duration::from_secs(3600);
