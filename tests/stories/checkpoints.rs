//! Tests CheckpointContainer with a real CRIU. The container keeps running after the call, also if the disk is
//! full, dockbridge is killed, or the engine restarts with live-restore.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::{host::processes::Processes, wire::cri};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::Pid,
};
use rand::Rng;
use serde_json::Value;
use tokio::{process::Command, task::JoinHandle, time::sleep};
use tonic::Code;

use crate::{
    security,
    skips::{Lack, skip},
    support::{
        cri::{Answer, Cri},
        failure::{Outcome, ensure, ensure_eq, fail},
        leftovers::files_below,
        patience::{Looks, patient},
        process::Stopped,
        random::seeded,
        stage::Stage,
        stated::is_full_size,
        world::World,
    },
};

/// The checkpointed container has processes with a pipe between them, and open files in its layer and on a
/// volume. The archive has at least two processes, the log, the changed files of the layer, and the names of the
/// deleted files. The container continues to count without a gap.
pub(crate) async fn of_a_counter(world: World) -> Outcome {
    let Some(stage) = stage(&world, "checkpoint").await? else { return Ok(()) };
    let (sandbox, id) = counter(&stage).await?;
    let archive = stage.folders.shared.join("counter.tar");
    checkpoint(&stage.cri, &id, &archive, 0).await?;
    goes_on(&stage).await?;
    ensure_eq!(fs::metadata(&archive)?.permissions().mode() & 0o777, 0o600);
    ensure_eq!(leftovers(&stage), Vec::<String>::new());

    let names: BTreeSet<String> =
        tar(&["-tf"], &archive).await?.lines().map(str::to_owned).collect();
    for name in [
        "config.dump",
        "spec.dump",
        "status.dump",
        "bind.mounts",
        "rootfs-diff.tar",
        "deleted.files",
        "stats-dump",
        "dump.log",
        "container.log",
        "checkpoint/inventory.img",
    ] {
        ensure!(names.contains(name), "the archive has no {name}: {names:?}");
    }
    let processes = names.iter().filter(|name| name.starts_with("checkpoint/core-")).count();
    ensure!(processes >= 2, "the archive has {processes} processes: {names:?}");
    let config = document(&archive, "config.dump").await?;
    ensure_eq!(config["id"], id.as_str());
    let spec = document(&archive, "spec.dump").await?;
    ensure_eq!(spec["annotations"]["io.kubernetes.cri.container-name"], "counter");
    let status = document(&archive, "status.dump").await?;
    ensure_eq!(status["metadata"]["name"], "counter");
    let mounts = document(&archive, "bind.mounts").await?;
    ensure_eq!(mounts[0]["destination"], "/data");
    let deleted = document(&archive, "deleted.files").await?;
    ensure_eq!(deleted, serde_json::json!(["/etc/group"]));
    let log = tar(&["-xOf"], &archive).await;
    ensure!(log.is_ok(), "the archive is damaged");
    ensure!(
        extract(&archive, "container.log").await?.contains("stdout F 1"),
        "the log is not whole"
    );
    let diff = stage.folders.shared.join("diff.tar");
    let inner =
        Command::new("tar").args(["-xOf", text(&archive), "rootfs-diff.tar"]).output().await?;
    fs::write(&diff, inner.stdout)?;
    let changed = tar(&["-tf"], &diff).await?;
    for name in ["etc/added", "etc/.wh.group", "own"] {
        ensure!(changed.lines().any(|line| line == name), "no {name} in {changed}");
    }
    ensure!(extract(&diff, "etc/added").await?.contains("kept"), "a changed file is not whole");
    let text = fs::read_to_string(stage.bridge.log())?;
    let line = text.lines().find(|line| line.contains("container checkpointed"));
    println!("  {}", line.unwrap_or_default());

    // A container checkpoint does not overwrite an archive. After a container checkpoint, a command and the
    // removal of the pod work.
    let refused = checkpoint(&stage.cri, &id, &archive, 0).await;
    denied(refused, (Code::AlreadyExists, "already exists"))?;
    checkpoint(&stage.cri, &id, &stage.folders.shared.join("second.tar"), 0).await?;
    let told = stage.cri.exec_sync(&id, &["cat", "/etc/added"], 0).await?;
    ensure_eq!(String::from_utf8_lossy(&told.stdout).trim(), "kept");
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// Each refused CheckpointContainer call returns the reason, and the container can be checkpointed afterwards.
pub(crate) async fn refused(world: World) -> Outcome {
    let Some(stage) = stage(&world, "refused_checkpoint").await? else { return Ok(()) };
    let (cri, place) = (&stage.cri, &stage.folders.shared);
    let (sandbox, id) = counter(&stage).await?;
    let archive = place.join("refused.tar");
    let failed = Code::FailedPrecondition;

    stage.engine.docker(&["pause", &id]).await?;
    denied(checkpoint(cri, &id, &archive, 0).await, (failed, "is paused"))?;
    stage.engine.docker(&["unpause", &id]).await?;
    let nowhere = place.join("nowhere/a.tar");
    denied(checkpoint(cri, &id, &nowhere, 0).await, (Code::InvalidArgument, "is not a directory"))?;
    let unknown = "0".repeat(64);
    denied(checkpoint(cri, &unknown, &archive, 0).await, (Code::NotFound, &unknown))?;
    stage.engine.inside(&id, "mkfifo /tmp/pipe").await?;
    denied(checkpoint(cri, &id, &archive, 0).await, (failed, "/tmp/pipe is a named pipe"))?;
    stage.engine.inside(&id, "rm /tmp/pipe").await?;

    // Without a setting in /etc/criu/runc.conf, CRIU fails if a process has an established TCP connection.
    // dockbridge's error has the last error lines of CRIU's log.
    let line = "sleep 999 | nc -l -p 9099 & \
                until grep -q :238B /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; \
                sleep 999 | nc 127.0.0.1 9099";
    let pod = stage.recipes.pod("connected");
    let connected = cri.run(&pod).await?;
    let other = stage.up(&connected, &pod, &[stage.recipes.container("main", line)]).await?;
    let mut looks = Looks::every(Duration::from_millis(50));
    while !stage.engine.inside(&other[0], "cat /proc/net/tcp").await?.contains(" 01 ") {
        ensure!(looks.again().await, "there is no connection");
    }
    denied(checkpoint(cri, &other[0], &archive, 0).await, (failed, "Error (criu/"))?;
    ensure_eq!(cri.container(&other[0]).await?.state(), cri::ContainerState::ContainerRunning);
    cri.end(&connected).await?;

    goes_on(&stage).await?;
    ensure_eq!(leftovers(&stage), Vec::<String>::new());
    checkpoint(cri, &id, &archive, 0).await?;
    cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// The program `dump-container` hangs. CheckpointContainer fails at its deadline, a second CheckpointContainer is
/// refused, and a command waits. dockbridge is killed, and in the restarted dockbridge a stop of the container
/// waits for the program. When the program has ended, the container stops as usual.
pub(crate) async fn held_up(world: World) -> Outcome {
    let Some(mut stage) = stage(&world, "held_up_checkpoint").await? else { return Ok(()) };
    let (sandbox, id) = counter(&stage).await?;
    let archive = stage.folders.shared.join("late.tar");
    let late = start_checkpoint(&stage, &id, &archive, 1);
    let program = held_program(&stage, &id).await?;
    denied(late.await?, (Code::DeadlineExceeded, "not complete after 1s"))?;
    let again = checkpoint(&stage.cri, &id, &archive, 0).await;
    denied(again, (Code::FailedPrecondition, "already being made"))?;
    let (cri, container) = (stage.cri.clone(), id.clone());
    let probe = tokio::spawn(async move { cri.exec_sync(&container, &["true"], 1).await });
    sleep(patient(Duration::from_secs(2))).await;
    ensure!(!probe.is_finished(), "the command did not wait: {:?}", probe.await);
    stage.cri = stage.bridge.crash().await?;
    ensure!(probe.await?.is_err(), "the killed dockbridge answered");

    let (cri, container) = (stage.cri.clone(), id.clone());
    let stop = tokio::spawn(async move { cri.stop_container(&container, 20).await });
    let again = checkpoint(&stage.cri, &id, &archive, 0).await;
    denied(again, (Code::FailedPrecondition, "already being made"))?;
    ensure!(!stop.is_finished(), "the stop did not wait");
    let removal = stage.cri.remove_container(&id).await;
    denied(removal, (Code::DeadlineExceeded, "is in use by a container or pod checkpoint"))?;
    drop(program);
    stop.await??;
    ensure_eq!(
        stage.cri.container(&id).await?.exit_code,
        0,
        "the container did not stop by itself"
    );
    nothing_left(&stage).await?;
    ensure!(!archive.exists(), "a checkpoint without a caller was kept");
    // The engine may have started the command that waited, so the restarted dockbridge searches for the
    // command for a while.
    let mut looks = Looks::every(Duration::from_millis(100));
    while !files_below(&stage.folders.state.join("execs")).is_empty() {
        ensure!(looks.again().await, "the record of the command is still there");
    }
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// The disk of the archive, and then the disk of unfinished container checkpoints, becomes full during the call. The
/// error says that the disk is full. No unfinished files are left, and the container keeps running.
pub(crate) async fn on_a_full_disk(world: World) -> Outcome {
    let Some(stage) = stage(&world, "full_disk").await? else { return Ok(()) };
    let (sandbox, id) = counter(&stage).await?;
    let archives = stage.folders.shared.join("archives");
    let archive = archives.join("full.tar");
    for disk in [archives, stage.folders.state.join("dumps")] {
        fs::create_dir_all(&disk)?;
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), Some("size=64m"))?;
        let filler = disk.join("filler");
        let made = start_checkpoint(&stage, &id, &archive, 0);
        let program = held_program(&stage, &id).await?;
        let full = std::io::copy(&mut std::io::repeat(1), &mut fs::File::create(&filler)?);
        ensure!(full.is_err(), "the disk has no end");
        drop(program);
        let refused = made.await?;
        println!("  {}", refused.as_ref().err().map_or("", |it| &it.message));
        denied(refused, (Code::ResourceExhausted, "No space left on device"))?;
        fs::remove_file(filler)?;
        ensure_eq!(files_below(&disk), Vec::<String>::new());
        ensure_eq!(leftovers(&stage), Vec::<String>::new());
        goes_on(&stage).await?;
        checkpoint(&stage.cri, &id, &archive, 0).await?;
        umount2(&disk, MntFlags::MNT_DETACH)?;
    }
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// At random moments of container checkpoints, dockbridge is killed or stopped, or the engine restarts with
/// live-restore. The container keeps running each time, and no unfinished container checkpoint is left.
pub(crate) async fn over_crashes(world: World) -> Outcome {
    let Some(mut stage) = stage(&world, "crashed_checkpoint").await? else { return Ok(()) };
    stage.engine.control(&["restart", LIVE_RESTORE]).await?;
    crate::restarts::until_ready(&stage.cri).await?;
    let mut random = seeded();
    let (sandbox, id) = counter(&stage).await?;
    let rounds = if is_full_size() { 50 } else { 6 };
    let mut complete = 0;
    for round in 0..rounds {
        let archive = stage.folders.shared.join(format!("{round}.tar"));
        let made = start_checkpoint(&stage, &id, &archive, 0);
        let moment = patient(Duration::from_millis(random.random_range(0..900)));
        sleep(moment).await;
        let at = format!("round {round}, after {moment:?}");
        match round % 3 {
            0 => stage.cri = stage.bridge.crash().await?,
            1 => stage.cri = stage.bridge.restart().await?,
            _ => {
                stage.engine.control(&["restart", LIVE_RESTORE]).await?;
                crate::restarts::until_ready(&stage.cri).await?;
            }
        }
        let made = made.await?;
        nothing_left(&stage).await?;
        goes_on(&stage).await?;
        ensure_eq!(
            stage.cri.container(&id).await?.state(),
            cri::ContainerState::ContainerRunning,
            "{at}"
        );
        ensure!(made.is_err() || archive.exists(), "{at}: there is no archive");
        if archive.exists() {
            complete += 1;
            tar(&["-tf"], &archive).await?;
            fs::remove_file(&archive)?;
        }
    }
    println!("  {complete} of {rounds} checkpoints were complete");
    checkpoint(&stage.cri, &id, &stage.folders.shared.join("last.tar"), 0).await?;
    stage.cri.end(&sandbox).await?;
    stage.engine.control(&["restart"]).await?;
    crate::restarts::until_ready(&stage.cri).await?;
    stage.leaves_nothing().await
}

fn denied(answer: Answer, wanted: (Code, &str)) -> Outcome {
    security::said(answer.map(|()| String::new()), wanted)
}

/// Starts a dockbridge, or skips the story and returns `None` if this machine has no CRIU that works.
pub(crate) async fn stage(world: &World, story: &str) -> Outcome<Option<Stage>> {
    let checked = Command::new("criu").arg("check").output().await;
    if !checked.is_ok_and(|checked| checked.status.success()) {
        skip(Lack::Criu);
        return Ok(None);
    }
    Stage::cni(world, story).await.map(Some)
}

/// Starts a pod with the container that counts, and returns the ids of pod and container, after the container
/// has begun to count.
pub(crate) async fn counter(stage: &Stage) -> Outcome<(String, String)> {
    let container = counter_container(stage);
    fs::create_dir_all(data(stage))?;
    let pod = stage.recipes.pod("counter");
    let sandbox = stage.cri.run(&pod).await?;
    let id = stage.up(&sandbox, &pod, &[container]).await?.remove(0);
    goes_on(stage).await?;
    Ok((sandbox, id))
}

pub(crate) fn counter_container(stage: &Stage) -> cri::ContainerConfig {
    let line = "trap 'exit 0' TERM; echo kept >/etc/added; rm /etc/group; exec 3>>/data/count 4>/own; \
                { n=0; while :; do n=$((n + 1)); echo $n; sleep 0.02; done; } | \
                while read n; do echo $n >&3; echo $n; echo $n >&4; done & wait";
    let mut container = stage.recipes.container("counter", line);
    container.mounts.push(volume(stage));
    container
}

/// The volume to which the counting container writes its numbers.
pub(crate) fn volume(stage: &Stage) -> cri::Mount {
    cri::Mount {
        container_path: "/data".to_owned(),
        host_path: data(stage).display().to_string(),
        ..cri::Mount::default()
    }
}

pub(crate) fn data(stage: &Stage) -> PathBuf {
    stage.folders.shared.join("data")
}

/// Waits until the counting container has continued to count. Fails if the container has left out a number or
/// begun again.
async fn goes_on(stage: &Stage) -> Outcome {
    let file = data(stage).join("count");
    let count = || fs::read_to_string(&file).unwrap_or_default();
    let before = count().lines().count();
    let mut looks = Looks::every(Duration::from_millis(20));
    while count().lines().count() < before + 5 {
        ensure!(looks.again().await, "the counter stands still at {before}");
    }
    let text = count();
    let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
    for (number, line) in (1..).zip(whole.lines()) {
        ensure_eq!(line.parse::<u32>()?, number, "the counter was disturbed");
    }
    Ok(())
}

async fn checkpoint(cri: &Cri, id: &str, archive: &Path, timeout: i64) -> Answer {
    cri.checkpoint(id, archive, timeout).await
}

fn start_checkpoint(stage: &Stage, id: &str, archive: &Path, timeout: i64) -> JoinHandle<Answer> {
    let (cri, id, archive) = (stage.cri.clone(), id.to_owned(), archive.to_owned());
    tokio::spawn(async move { cri.checkpoint(&id, &archive, timeout).await })
}

/// Stops the program `dump-container` of this container with SIGSTOP, as soon as the program runs.
pub(crate) async fn held_program(stage: &Stage, id: &str) -> Outcome<Stopped> {
    let directory = stage.folders.state.join("dumps").join(id).display().to_string();
    let processes = Processes::new("/proc");
    let mut looks = Looks::every(Duration::from_millis(1));
    while looks.again().await {
        for process in processes.all()? {
            let words = processes.command_line(process.who.pid);
            if words.get(1).is_some_and(|word| word == "dump-container")
                && words.contains(&directory)
            {
                return Stopped::stop(Pid::from_raw(i32::try_from(process.who.pid)?));
            }
        }
    }
    fail!("no checkpoint is being made");
}

/// The files of unfinished container checkpoints and the unfinished archives on disk.
fn leftovers(stage: &Stage) -> Vec<String> {
    let mut left = files_below(&stage.folders.state.join("dumps"));
    left.extend(
        files_below(&stage.folders.shared).into_iter().filter(|path| path.ends_with(".tmp")),
    );
    left
}

pub(crate) async fn nothing_left(stage: &Stage) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(50));
    while !leftovers(stage).is_empty() {
        ensure!(looks.again().await, "left: {:?}", leftovers(stage));
    }
    Ok(())
}

async fn document(archive: &Path, name: &str) -> Outcome<Value> {
    Ok(serde_json::from_str(&extract(archive, name).await?)?)
}

async fn extract(archive: &Path, name: &str) -> Outcome<String> {
    let output = Command::new("tar").args(["-xOf", text(archive), name]).output().await?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn tar(flags: &[&str], archive: &Path) -> Outcome<String> {
    let output = Command::new("tar").args(flags).arg(archive).output().await?;
    ensure!(output.status.success(), "{archive:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

const LIVE_RESTORE: &str = "--live-restore";
