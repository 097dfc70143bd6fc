//! Tests containers that start from a container checkpoint, with a real CRIU: their processes continue in a new pod,
//! with at most the rights of the new container.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::{host::processes::Processes, wire::cri};
use nix::{sys::stat::Mode, unistd::mkfifo};
use tokio::process::Command;
use tonic::Code;

use crate::{
    checkpoints,
    nri_plugin::{Plugin, adjusts},
    plugins::of_memory,
    security,
    skips::{Lack, skip},
    support::{
        cri::Answer,
        failure::{Outcome, ensure, ensure_eq},
        leftovers::files_below,
        patience::Looks,
        stage::Stage,
        stated::is_full_size,
        world::World,
    },
};

/// A container that counts continues to count in another pod, with its processes, pipe, open files, changed
/// and deleted files. The restored container has the name, host name, OOM score, log and volume of the new
/// request. The next start does not restore the container checkpoint again.
pub(crate) async fn of_a_counter(world: World) -> Outcome {
    let Some(Counter { stage, archive, data }) = Counter::checkpointed(&world, "restore").await?
    else {
        return Ok(());
    };
    let cri = &stage.cri;

    let pod = stage.recipes.pod("later");
    let sandbox = cri.run(&pod).await?;
    let config = again(&stage, &archive);
    let id = cri.create(&sandbox, &config, &pod).await?;
    ensure_eq!(cri.create(&sandbox, &config, &pod).await?, id, "a repeated create makes another");
    cri.start(&id).await?;
    let before = numbers(&data).await?;
    ensure!(before > 1, "the counter began again");
    let own = stage.engine.inside(&id, "cat /own").await?;
    for (number, line) in (1..).zip(own.lines()) {
        ensure_eq!(line.parse::<u32>()?, number, "the file in the layer has a gap");
    }
    ensure_eq!(stage.engine.inside(&id, "cat /etc/added").await?.trim(), "kept");
    ensure!(stage.engine.inside(&id, "ls /etc/group").await.is_err(), "a deleted file is back");
    ensure_eq!(stage.engine.inside(&id, "hostname").await?.trim(), "later");
    let told = cri.exec_sync(&id, &["cat", "/proc/1/oom_score_adj"], 0).await?;
    ensure_eq!(String::from_utf8_lossy(&told.stdout).trim(), "1000");
    let status = cri.container(&id).await?;
    ensure_eq!(status.metadata.clone().unwrap_or_default().name, "again");
    ensure_eq!(status.state(), cri::ContainerState::ContainerRunning);
    let log = fs::read_to_string(&status.log_path)?;
    ensure!(
        log.contains(&format!("stdout F {before}\n")),
        "{before} is not the first line of {log}"
    );
    ensure!(!log.contains("stderr"), "there is a mark in the log: {log}");
    cri.stats(&id).await?;
    ensure_eq!(files_below(&stage.folders.state.join("restores")), Vec::<String>::new());

    stage.engine.docker(&["restart", "-t", "1", &id]).await?;
    fs::write(&data, "")?;
    let text = stage.engine.docker(&["logs", "--since", "1s", &id]).await?;
    ensure!(!text.is_empty(), "the restarted container is silent");
    let mut looks = Looks::every(Duration::from_millis(50));
    while fs::read_to_string(&data)?.is_empty() {
        ensure!(looks.again().await, "the restarted container does not count");
    }
    ensure_eq!(stage.engine.inside(&id, "head -n1 /own").await?.trim(), "1");
    cri.end(&sandbox).await?;
    fs::remove_file(&archive)?;
    stage.leaves_nothing().await
}

/// If the checkpointed container had more rights than the new container, the restore is refused before any
/// process of the archive runs.
pub(crate) async fn of_more_than_allowed(world: World) -> Outcome {
    let Some(Counter { stage, archive, data }) = Counter::checkpointed(&world, "too_much").await?
    else {
        return Ok(());
    };
    let cri = &stage.cri;
    let pod = stage.recipes.pod("strict");
    let sandbox = cri.run(&pod).await?;
    let strict = |change: &dyn Fn(&mut cri::ContainerConfig)| {
        let mut config = again(&stage, &archive);
        change(&mut config);
        config
    };
    let no_capabilities = strict(&|config| {
        let drop_capabilities = vec!["ALL".to_owned()];
        security_of(config).capabilities =
            Some(cri::Capability { drop_capabilities, ..cri::Capability::default() });
    });
    let no_root = strict(&|config| {
        security_of(config).run_as_user = Some(cri::Int64Value { value: 1000 });
    });
    let no_more_rights = strict(&|config| security_of(config).no_new_privs = true);
    let no_volume = strict(&|config| config.mounts.clear());
    let read_only = strict(&|config| config.mounts[0].readonly = true);
    let other_volume = strict(&|config| config.mounts[0].container_path = "/other".to_owned());
    for (name, config, reason) in [
        (
            "capabilities",
            no_capabilities,
            "a capability that processes of the new container do not have: CAP_CHOWN",
        ),
        ("root", no_root, "a checkpointed process has user id 0, but"),
        ("privileges", no_more_rights, "a checkpointed process lacks no_new_privs"),
        ("volume", no_volume, "no mount like the checkpoint's mount at /data"),
        ("write", read_only, "the mount at /data lacks options"),
        ("other", other_volume, "no mount like the checkpoint's mount at /data"),
    ] {
        let id = cri.create(&sandbox, &config, &pod).await?;
        let refused = cri.start(&id).await;
        println!("  {name}: {}", refused.as_ref().err().map_or("", |it| &it.message));
        let refused = refused.err().map(|it| it.message).unwrap_or_default();
        ensure!(refused.contains(reason), "{name}: {reason:?} is not in {refused:?}");
        cri.remove_container(&id).await?;
    }
    ensure_eq!(fs::read_to_string(&data)?, "", "a refused checkpoint has run");
    // In a container with the rights of the checkpointed container, the restore works.
    let id = cri.create(&sandbox, &again(&stage, &archive), &pod).await?;
    cri.start(&id).await?;
    numbers(&data).await?;
    cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// dockbridge refuses archives if restores are off, archives that are not in the directory `restore-dir`, and
/// damaged archives.
pub(crate) async fn refused(world: World) -> Outcome {
    let Some(mut stage) = checkpoints::stage(&world, "refused_restore").await? else {
        return Ok(());
    };
    let pod = stage.recipes.pod("refused");
    let sandbox = stage.cri.run(&pod).await?;
    let place = stage.folders.shared.join("archives");
    let (outside, link) = (stage.folders.shared.join("outside.tar"), place.join("link.tar"));
    let (missing, text) = (place.join("missing.tar"), place.join("text.tar"));
    fs::create_dir(&place)?;
    fs::write(&outside, "")?;
    fs::write(&text, "x".repeat(4096))?;
    std::os::unix::fs::symlink(&outside, &link)?;
    let off = stage.cri.create(&sandbox, &again(&stage, &missing), &pod).await;
    denied(off, (Code::FailedPrecondition, "restore-dir is not set"))?;
    let flags = ["--restore-dir", &place.display().to_string()];
    stage.cri = stage.bridge.restart_with(&flags).await?;
    for (path, code, reason) in [
        (&outside, Code::InvalidArgument, "dockbridge reads archives only from"),
        (&missing, Code::NotFound, "No such file"),
        (&link, Code::InvalidArgument, "not a regular file"),
        (&text, Code::InvalidArgument, "the archive cannot be read"),
    ] {
        denied(stage.cri.create(&sandbox, &again(&stage, path), &pod).await, (code, reason))?;
    }
    fs::write(&text, "")?;
    let empty = stage.cri.create(&sandbox, &again(&stage, &text), &pod).await;
    denied(empty, (Code::InvalidArgument, "the archive has no config.dump"))?;
    if !world.has_oci_runtime {
        without_the_runtime(&stage, &place).await?;
    }
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// Without dockbridge-runtime, also with Docker 20.10, CheckpointPod works, but CreateContainer with an archive and
/// RestorePod fail with an error that names what is missing.
async fn without_the_runtime(stage: &Stage, place: &Path) -> Outcome {
    let (sandbox, id) = checkpoints::counter(stage).await?;
    let checkpoint = place.join("pod");
    fs::create_dir(&checkpoint)?;
    stage.cri.checkpoint_pod(&sandbox, &[id], &checkpoint).await?;
    let pod = stage.recipes.pod("later");
    let archive = again(stage, &checkpoint.join("counter.tar"));
    let lacks = match stage.world.docker_major {
        ..24 => "needs Docker 24.0 or newer",
        _ => "`dockbridge setup` adds dockbridge-runtime",
    };
    for reason in ["cannot start from a container checkpoint", lacks] {
        let wanted = (Code::FailedPrecondition, reason);
        denied(stage.cri.create(&sandbox, &archive, &pod).await, wanted)?;
        let container = checkpoints::counter_container(stage);
        let restored = stage.cri.restore_pod(&checkpoint, &pod, &[container]).await;
        denied(restored.map(|made| made.pod_sandbox_id), wanted)?;
    }
    stage.cri.end(&sandbox).await
}

/// If the checkpointed processes have no seccomp filter, each restored process has the filter of the new container.
pub(crate) async fn with_a_filter(world: World) -> Outcome {
    let Some((stage, archive)) = stage(&world, "restore_filter").await? else { return Ok(()) };
    let cri = &stage.cri;
    let (sandbox, id) = checkpoints::counter(&stage).await?;
    let filters = "grep -h Seccomp: /proc/[0-9]*/status | sort -u";
    ensure_eq!(stage.engine.inside(&id, filters).await?.trim(), "Seccomp:\t0");
    cri.checkpoint(&id, &archive, 0).await?;
    cri.end(&sandbox).await?;
    let data = checkpoints::data(&stage).join("count");
    fs::write(&data, "")?;
    let pod = stage.recipes.pod("filtered");
    let sandbox = cri.run(&pod).await?;
    let mut config = again(&stage, &archive);
    let default = cri::security_profile::ProfileType::RuntimeDefault.into();
    security_of(&mut config).seccomp =
        Some(cri::SecurityProfile { profile_type: default, ..Default::default() });
    let id = stage.up(&sandbox, &pod, std::slice::from_ref(&config)).await?.remove(0);
    numbers(&data).await?;
    ensure_eq!(stage.engine.inside(&id, filters).await?.trim(), "Seccomp:\t2");

    // A container checkpoint whose processes have seccomp filters can also be restored.
    let second = archive.with_file_name("second.tar");
    cri.checkpoint(&id, &second, 0).await?;
    cri.end(&sandbox).await?;
    let pod = stage.recipes.pod("twice");
    let sandbox = cri.run(&pod).await?;
    config.image = again(&stage, &second).image;
    let id = stage.up(&sandbox, &pod, &[config]).await?.remove(0);
    ensure_eq!(stage.engine.inside(&id, filters).await?.trim(), "Seccomp:\t2");
    cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// A container is restored from an image that `restore-images` allows, and that has the files of a checkpoint archive
/// and the label `org.criu.checkpoint.container.name`.
pub(crate) async fn of_an_image(world: World) -> Outcome {
    let Some(Counter { stage, archive, data }) =
        Counter::checkpointed(&world, "restore_image").await?
    else {
        return Ok(());
    };
    let cri = &stage.cri;
    let mark = "LABEL org.criu.checkpoint.container.name=counter";
    let image = "dockbridge.test/checkpoint:1";
    let other = "dockbridge.test/other:1";
    let tar = archive.display().to_string();
    for name in [image, other] {
        stage.engine.docker(&["import", "--change", mark, &tar, name]).await?;
    }

    let pod = stage.recipes.pod("from-image");
    let sandbox = cri.run(&pod).await?;
    let mut config = again(&stage, &archive);
    config.image = Some(cri::ImageSpec { image: other.to_owned(), ..Default::default() });
    let refused = cri.create(&sandbox, &config, &pod).await;
    denied(refused, (Code::FailedPrecondition, "restore-images"))?;
    config.image = Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() });
    let id = stage.up(&sandbox, &pod, &[config]).await?.remove(0);
    ensure!(numbers(&data).await? > 1, "the counter began again");
    ensure_eq!(stage.engine.inside(&id, "cat /etc/added").await?.trim(), "kept");
    cri.end(&sandbox).await?;
    stage.engine.docker(&["rmi", image, other]).await?;
    stage.leaves_nothing().await
}

/// A restored process keeps its nested working directory and its open files: deleted files on the root file system, on
/// a volume and in memory, a device, and a named pipe.
pub(crate) async fn of_open_files(world: World) -> Outcome {
    let Some((stage, archive)) = stage(&world, "open_files").await? else { return Ok(()) };
    let cri = &stage.cri;
    let line = "mkdir -p /tmp/deep/er; cd /tmp/deep/er; mkfifo /data/pipe; exec 3<>/data/pipe; \
                exec 4<>/tmp/deep/gone 5<>/data/gone 6<>/dev/shm/gone 7</dev/urandom 8>>kept 9</etc/resolv.conf; \
                rm /tmp/deep/gone /data/gone /dev/shm/gone; for n in 4 5 6; do echo $n >&$n; done; \
                echo ready >&8; while :; do sleep 0.1; done";
    let mut container = stage.recipes.container("files", line);
    container.mounts.push(checkpoints::volume(&stage));
    fs::create_dir_all(checkpoints::data(&stage))?;
    let pod = stage.recipes.pod("files");
    let sandbox = cri.run(&pod).await?;
    let id = stage.up(&sandbox, &pod, &[container]).await?.remove(0);
    let mut looks = Looks::every(Duration::from_millis(50));
    while stage.engine.inside(&id, "cat /tmp/deep/er/kept").await.is_err() {
        ensure!(looks.again().await, "the program does not begin");
    }
    cri.checkpoint(&id, &archive, 0).await?;
    cri.end(&sandbox).await?;

    let pod = stage.recipes.pod("later");
    let sandbox = cri.run(&pod).await?;
    let id = stage.up(&sandbox, &pod, &[again(&stage, &archive)]).await?.remove(0);
    for (file, wanted) in [
        ("fd/4", "/tmp/deep/gone (deleted)"),
        ("fd/5", "/data/gone (deleted)"),
        ("fd/6", "/dev/shm/gone (deleted)"),
        ("fd/7", "/dev/urandom"),
        ("fd/8", "/tmp/deep/er/kept"),
        ("fd/9", "/etc/resolv.conf"),
        ("fd/3", "/data/pipe"),
        ("cwd", "/tmp/deep/er"),
    ] {
        let found = stage.engine.inside(&id, &format!("readlink /proc/1/{file}")).await?;
        ensure_eq!(found.trim(), wanted);
    }
    let content = stage.engine.inside(&id, "cat /proc/1/fd/4 /proc/1/fd/5 /proc/1/fd/6").await?;
    ensure_eq!(content, "4\n5\n6");
    cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// An NRI plugin gets the call PostStartContainer for a restored container, and the plugin's memory limit applies.
pub(crate) async fn with_a_plugin(world: World) -> Outcome {
    let Some(Counter { mut stage, archive, data }) =
        Counter::checkpointed(&world, "restore_plugin").await?
    else {
        return Ok(());
    };
    let socket = stage.folders.run.join("nri.sock");
    let flags = ["--nri", "on", "--nri-socket", &socket.display().to_string()];
    stage.cri = stage.bridge.restart_with(&flags).await?;
    let plugin = Plugin::synchronised(&socket, ("10", "limits"), adjusts(of_memory())).await;
    let pod = stage.recipes.pod("later");
    let sandbox = stage.cri.run(&pod).await?;
    let id = stage.up(&sandbox, &pod, &[again(&stage, &archive)]).await?.remove(0);
    ensure!(numbers(&data).await? > 1, "the counter began again");
    // The test reads the limit on the host, because on cgroup v1 a restored container sees the engine's cgroups.
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", &id]).await?;
    let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", pid.trim()))?;
    let v1 = cgroups
        .lines()
        .find_map(|line| line.split_once(":memory:"))
        .map(|(_, path)| format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"));
    let v2 = || format!("/sys/fs/cgroup{}/memory.max", cgroups.trim().trim_start_matches("0::"));
    let limit = fs::read_to_string(v1.unwrap_or_else(v2))?;
    ensure_eq!(limit.trim(), (48 << 20).to_string());
    plugin.until("PostStartContainer").await;
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// A restored process of a user without capabilities has no capabilities.
pub(crate) async fn of_another_user(world: World) -> Outcome {
    let Some((stage, archive)) = stage(&world, "restore_user").await? else { return Ok(()) };
    let cri = &stage.cri;
    let as_user = |mut config: cri::ContainerConfig| {
        security_of(&mut config).run_as_user = Some(cri::Int64Value { value: 1000 });
        config
    };
    let pod = stage.recipes.pod("user");
    let sandbox = cri.run(&pod).await?;
    let line = "n=0; while :; do n=$((n + 1)); echo $n >/tmp/n; sleep 0.1; done";
    let config = as_user(stage.recipes.container("user", line));
    let id = stage.up(&sandbox, &pod, &[config]).await?.remove(0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let made = cri.checkpoint(&id, &archive, 0).await;
    cri.end(&sandbox).await?;
    if let Err(refused) = made {
        // On this machine, CRIU cannot read the limits of processes of another user.
        ensure!(refused.message.contains("Can't get rlimit"), "{refused}");
        skip(Lack::OtherLimits);
        return stage.leaves_nothing().await;
    }
    let sandbox = cri.run(&stage.recipes.pod("later")).await?;
    let mut config = as_user(again(&stage, &archive));
    config.mounts.clear();
    let pod = stage.recipes.pod("later");
    let id = stage.up(&sandbox, &pod, &[config]).await?.remove(0);
    let ids = "grep -h -E 'Uid|CapPrm' /proc/1/status | tr -d '\\n'";
    let seen = stage.engine.inside(&id, ids).await?;
    ensure!(seen.contains("1000\t1000") && seen.ends_with("0000000000000000"), "{seen}");
    cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// StopContainer or RemoveContainer interrupts the unpacking of a checkpoint archive.
pub(crate) async fn that_is_stopped(world: World) -> Outcome {
    let Some(Counter { stage, archive, .. }) =
        Counter::checkpointed(&world, "stopped_restore").await?
    else {
        return Ok(());
    };
    // This large sparse file takes a while to unpack.
    let large = archive.with_file_name("large");
    fs::create_dir(&large)?;
    let (archive, large) = (archive.display().to_string(), large.display().to_string());
    fs::File::create(format!("{large}/rootfs-diff.tar"))?.set_len(2 << 30)?;
    for arguments in [
        ["-C", &large, "-xf", &archive, "--exclude=rootfs-diff.tar"],
        ["-C", &large, "-cf", &archive, "."],
    ] {
        ensure!(Command::new("tar").args(arguments).status().await?.success(), "tar failed");
    }
    let pod = stage.recipes.pod("stopped");
    let sandbox = stage.cri.run(&pod).await?;
    for is_removed in [false, true] {
        let config = again(&stage, Path::new(&archive));
        let id = stage.cri.create(&sandbox, &config, &pod).await?;
        let (cri, started) = (stage.cri.clone(), id.clone());
        let start = tokio::spawn(async move { cri.start(&started).await });
        let restores = stage.folders.state.join("restores");
        let mut looks = Looks::every(Duration::from_millis(5));
        while !files_below(&restores).iter().any(|path| path.ends_with("rootfs-diff.tar")) {
            ensure!(looks.again().await, "nothing is unpacked");
        }
        match is_removed {
            true => stage.cri.remove_container(&id).await?,
            false => stage.cri.stop_container(&id, 5).await?,
        }
        let refused = start.await?.err().map(|it| it.message).unwrap_or_default();
        ensure!(refused.contains("is being stopped or removed"), "{refused}");
        ensure_eq!(files_below(&restores), Vec::<String>::new());
        stage.cri.remove_container(&id).await?;
    }
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// CRIU waits for a named pipe that replaced a file which the checkpointed container had open. At the time limit
/// of a restore, the start fails with an error that names CRIU and the limit, and no file of the restore is left.
/// Runs only in full size.
pub(crate) async fn that_hangs(world: World) -> Outcome {
    if !is_full_size() {
        return Ok(());
    }
    let Some(Counter { stage, archive, data }) =
        Counter::checkpointed(&world, "hanging_restore").await?
    else {
        return Ok(());
    };
    fs::remove_file(&data)?;
    mkfifo(&data, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let pod = stage.recipes.pod("hanging");
    let sandbox = stage.cri.run(&pod).await?;
    let id = stage.cri.create(&sandbox, &again(&stage, &archive), &pod).await?;
    let refused = stage.cri.start(&id).await.err().map(|it| it.message).unwrap_or_default();
    println!("  {refused}");
    ensure!(refused.contains("CRIU had not ended after 90s"), "{refused}");
    ensure_eq!(files_below(&stage.folders.state.join("restores")), Vec::<String>::new());
    let processes = Processes::new("/proc");
    let all = processes.all()?.into_iter().map(|process| processes.command_line(process.who.pid));
    let criu = all.filter(|words| words.iter().any(|word| word == "swrk"));
    ensure_eq!(criu.count(), 0, "CRIU still runs");
    fs::remove_file(&data)?;
    fs::write(&data, "")?;
    stage.cri.start(&id).await?;
    ensure!(numbers(&data).await? > 1, "the counter began again");
    stage.cri.end(&sandbox).await?;
    stage.leaves_nothing().await
}

/// dockbridge is killed after the create, and at several moments of the start from the archive. When the pod is
/// removed, no file of the restore is left.
pub(crate) async fn over_crashes(world: World) -> Outcome {
    let Some(Counter { mut stage, archive, .. }) =
        Counter::checkpointed(&world, "crashed_restore").await?
    else {
        return Ok(());
    };
    let pod = stage.recipes.pod("crashed");
    let sandbox = stage.cri.run(&pod).await?;
    let config = again(&stage, &archive);
    let id = stage.cri.create(&sandbox, &config, &pod).await?;
    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.create(&sandbox, &config, &pod).await?, id);
    for milliseconds in [5, 40, 120, 400] {
        let (cri, started) = (stage.cri.clone(), id.clone());
        let start = tokio::spawn(async move { cri.start(&started).await });
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        stage.cri = stage.bridge.crash().await?;
        drop(start.await?);
        if stage.cri.container(&id).await?.state() != cri::ContainerState::ContainerCreated {
            break;
        }
    }
    stage.cri.end(&sandbox).await?;
    ensure_eq!(files_below(&stage.folders.state.join("restores")), Vec::<String>::new());
    stage.leaves_nothing().await
}

fn denied(answer: Answer<String>, wanted: (Code, &str)) -> Outcome {
    security::said(answer, wanted)
}

/// Starts a dockbridge with restores enabled, and returns it with a path for an archive. Returns `None` if this machine
/// has no CRIU that works, the engine does not have `dockbridge-runtime`, or runc is too old for restores on cgroup v2.
pub(crate) async fn stage(world: &World, story: &str) -> Outcome<Option<(Stage, PathBuf)>> {
    if !world.has_oci_runtime {
        skip(Lack::OciRuntime);
        return Ok(None);
    }
    let told = Command::new("runc").arg("--version").output().await?.stdout;
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
        && told.starts_with(b"runc version 1.1")
    {
        skip(Lack::RuncForRestores);
        return Ok(None);
    }
    let Some(mut stage) = checkpoints::stage(world, story).await? else { return Ok(None) };
    let directory = stage.folders.shared.join("archives");
    fs::create_dir(&directory)?;
    let shown = directory.display().to_string();
    let flags = ["--restore-dir", &shown, "--restore-images", "dockbridge.test/checkpoint"];
    stage.cri = stage.bridge.restart_with(&flags).await?;
    Ok(Some((stage, directory.join("counter.tar"))))
}

/// A counting container that was checkpointed and has ended. The file with the container's numbers was emptied.
struct Counter {
    stage: Stage,
    archive: PathBuf,
    /// The file to which the container writes its numbers.
    data: PathBuf,
}

impl Counter {
    /// Returns `None` in the same cases as [`stage`].
    async fn checkpointed(world: &World, story: &str) -> Outcome<Option<Self>> {
        let Some((stage, archive)) = stage(world, story).await? else { return Ok(None) };
        Self::on(stage, archive).await.map(Some)
    }

    async fn on(stage: Stage, archive: PathBuf) -> Outcome<Self> {
        let (sandbox, id) = checkpoints::counter(&stage).await?;
        stage.cri.checkpoint(&id, &archive, 0).await?;
        stage.cri.end(&sandbox).await?;
        let data = checkpoints::data(&stage).join("count");
        fs::write(&data, "")?;
        Ok(Self { stage, archive, data })
    }
}

fn security_of(config: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerSecurityContext {
    config.linux.get_or_insert_default().security_context.get_or_insert_default()
}

/// The request for a container `again`, which starts from the archive.
fn again(stage: &Stage, archive: &Path) -> cri::ContainerConfig {
    let mut container = stage.recipes.container("again", "");
    container.command.clear();
    container.image =
        Some(cri::ImageSpec { image: archive.display().to_string(), ..Default::default() });
    container.mounts.push(checkpoints::volume(stage));
    container
}

/// Waits until the restored container counts, and returns its first number. Fails if a number is missing.
async fn numbers(file: &Path) -> Outcome<u32> {
    let mut looks = Looks::every(Duration::from_millis(20));
    loop {
        let text = fs::read_to_string(file)?;
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        let numbers: Vec<u32> = whole.lines().map(str::parse).collect::<Result<_, _>>()?;
        if let [first, .., last] = numbers[..]
            && numbers.len() > 4
        {
            ensure_eq!(last - first + 1, u32::try_from(numbers.len())?, "a number is missing");
            return Ok(first);
        }
        ensure!(looks.again().await, "the counter stands still: {text:?}");
    }
}
