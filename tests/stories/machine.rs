//! Tests that need a whole machine: systemd as cgroup manager, cgroup v2, AppArmor, SELinux, swap.

use std::{fs, path::Path, process::Stdio};

use dockbridge::wire::cri;
use tokio::{io::AsyncWriteExt, process::Command};

use cri::{ContainerConfig as Container, security_profile::ProfileType};

use crate::{
    pods::until_exited,
    skips::{Lack, skip},
    support::{
        failure::{Outcome, ensure, ensure_eq, fail},
        stage::Stage,
        world::World,
    },
};

/// RuntimeConfig returns the engine's cgroup driver, and a pod with a slice in its request is in that slice.
pub(crate) async fn keeps_pods_in_slices(world: World) -> Outcome {
    if !world.has_systemd_driver() {
        return left_out(Lack::Systemd);
    }
    let stage = Stage::cni(&world, "in_slices").await?;
    ensure_eq!(stage.cri.cgroup_driver().await?, Some(cri::CgroupDriver::Systemd));
    let pod = stage.recipes.pod("sliced");
    let parent = pod.linux.clone().unwrap_or_default().cgroup_parent;
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    for id in [&sandbox, &ids[0]] {
        let cgroups = of_main_process(&stage, id, "cgroup").await?;
        let wanted = format!("{parent}/docker-{id}.scope");
        ensure!(cgroups.lines().any(|line| line.ends_with(&wanted)), "{wanted} is not {cgroups:?}");
    }
    let unified = format!("/sys/fs/cgroup{parent}/docker-{}.scope/memory.max", ids[0]);
    ensure_eq!(fs::read_to_string(&unified)?.trim(), (64 << 20).to_string());

    let mut other = stage.recipes.pod("pathed");
    other.linux.get_or_insert_default().cgroup_parent = "/kubepods/podpathed".to_owned();
    let refused = stage.cri.run(&other).await.err();
    let message = refused.map(|refused| refused.message).unwrap_or_default();
    ensure!(message.contains("cgroupDriver: systemd"), "a cgroupfs path is answered {message:?}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A container without an AppArmor profile in its request has the engine's own profile. A container that
/// requests to be unconfined has no AppArmor profile.
pub(crate) async fn confines_with_apparmor(world: World) -> Outcome {
    if !has_apparmor() {
        return left_out(Lack::AppArmor);
    }
    let stage = Stage::cni(&world, "apparmor").await?;
    let pod = stage.recipes.pod("confined");
    let sandbox = stage.cri.run(&pod).await?;
    let usual = stage.recipes.sleeper("usual");
    let free = confined(stage.recipes.sleeper("free"), ProfileType::Unconfined, "");
    let ids = stage.up(&sandbox, &pod, &[usual, free]).await?;
    ensure_eq!(label_of(&stage, &ids[0]).await?, "docker-default (enforce)");
    ensure_eq!(label_of(&stage, &ids[1]).await?, "unconfined");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A container can name an AppArmor profile of the machine in the CRI's new or in its deprecated field, and
/// the new field has priority. dockbridge refuses a container whose AppArmor profile is not loaded.
pub(crate) async fn enforces_a_profile_of_its_own(world: World) -> Outcome {
    if !has_apparmor() {
        return left_out(Lack::AppArmor);
    }
    let stage = Stage::cni(&world, "own_profile").await?;
    apparmor_parser("--replace").await?;
    let pod = stage.recipes.pod("held");
    let sandbox = stage.cri.run(&pod).await?;
    let bare = confined(stage.recipes.sleeper("bare"), ProfileType::Localhost, OWN_PROFILE);
    let prefixed = format!("localhost/{OWN_PROFILE}");
    let told = confined(stage.recipes.sleeper("told"), ProfileType::Localhost, &prefixed);
    let aged = confined_as_of_old(stage.recipes.sleeper("aged"), &prefixed);
    let mut both = confined(aged.clone(), ProfileType::Unconfined, "");
    both.metadata.get_or_insert_default().name = "both".to_owned();
    let ids = stage.up(&sandbox, &pod, &[bare.clone(), told, aged, both]).await?;
    let write = ["sh", "-c", "echo free > /tmp/held"];
    for id in &ids[..3] {
        ensure_eq!(label_of(&stage, id).await?, format!("{OWN_PROFILE} (enforce)"));
        let answer = stage.cri.exec_sync(id, &write, 0).await?;
        let said = String::from_utf8_lossy(&answer.stderr);
        ensure!(answer.exit_code != 0 && said.contains("Permission denied"), "held: {said:?}");
    }
    ensure_eq!(label_of(&stage, &ids[3]).await?, "unconfined");
    ensure_eq!(stage.cri.exec_sync(&ids[3], &write, 0).await?.exit_code, 0);
    stage.cri.clear().await?;

    apparmor_parser("--remove").await?;
    let sandbox = stage.cri.run(&pod).await?;
    match stage.cri.create(&sandbox, &bare, &pod).await {
        Ok(id) => fail!("container {id} was made for a profile that is not loaded"),
        Err(refused) => ensure!(refused.message.contains(OWN_PROFILE), "{refused}"),
    }
    ensure_eq!(stage.engine.containers().await?, [sandbox]);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A container that needs more memory than its limit is killed if its request sets `memory.swap.max` to 0, and swaps if
/// `memory.swap.max` is large enough. An update can remove the swap limit.
pub(crate) async fn swap_is_limited_as_requested(world: World) -> Outcome {
    let swaps = fs::read_to_string("/proc/swaps")?;
    if swaps.lines().count() < 2 || !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return left_out(Lack::Swap);
    }
    let stage = Stage::cni(&world, "swap").await?;
    let pod = stage.recipes.pod("greedy");
    let sandbox = stage.cri.run(&pod).await?;
    let told = |name: &str, swap: &str, line: &str| {
        let mut container = stage.recipes.container(name, line);
        let resources = container.linux.get_or_insert_default().resources.get_or_insert_default();
        resources.memory_limit_in_bytes = 32 << 20;
        resources.unified.insert("memory.swap.max".to_owned(), swap.to_owned());
        container
    };
    let limits = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.swap.max > /dev/shm/limits;";
    let fill = "exec dd if=/dev/zero of=/dev/shm/heap bs=1M count=48";
    for (name, swap, code) in [("tight", 0, 137), ("loose", 128 << 20, 0)] {
        let line = format!("rm -f /dev/shm/*; {limits} {fill}");
        let greedy = told(name, &i64::to_string(&swap), &line);
        let ids = stage.up(&sandbox, &pod, &[greedy]).await?;
        let status = until_exited(&stage.cri, &ids[0]).await?;
        ensure_eq!(status.exit_code, code, "with {swap} bytes of swap: {}", status.reason);
        let reader = stage.recipes.container(&format!("{name}-reader"), "cat /dev/shm/limits");
        let ids = stage.up(&sandbox, &pod, &[reader]).await?;
        until_exited(&stage.cri, &ids[0]).await?;
        let seen = stage.engine.docker(&["logs", &ids[0]]).await?;
        ensure_eq!(seen, format!("{}\n{swap}", 32 << 20), "limits of {name}");
    }
    let ids = stage.up(&sandbox, &pod, &[told("freed", "0", "sleep 3600")]).await?;
    let swap_max = ["cat", "/sys/fs/cgroup/memory.swap.max"];
    let before = stage.cri.exec_sync(&ids[0], &swap_max, 10).await?;
    let linux =
        cri::LinuxContainerResources { memory_swap_limit_in_bytes: -1, ..Default::default() };
    stage.cri.update(&ids[0], linux).await?;
    let after = stage.cri.exec_sync(&ids[0], &swap_max, 10).await?;
    ensure_eq!([before.stdout, after.stdout], [b"0\n".to_vec(), b"max\n".to_vec()]);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Containers of a pod have the same SELinux label, unless a container is privileged or requests another. dockbridge
/// relabels a volume only if requested. Before it creates a container, dockbridge refuses a label that the policy
/// does not have.
pub(crate) async fn labels_with_selinux(world: World) -> Outcome {
    if !Path::new("/sys/fs/selinux/enforce").exists() {
        return left_out(Lack::Selinux);
    }
    let stage = Stage::cni(&world, "selinux").await?;
    let pod = stage.recipes.pod("labelled");
    let sandbox = stage.cri.run(&pod).await?;
    let mut told = stage.recipes.sleeper("told");
    security_of(&mut told).selinux_options = level("s0:c4,c5");
    told.mounts = vec![volume(&stage, "relabelled", true)?, volume(&stage, "kept", false)?];
    let before = label_of_file(&stage, "kept").await?;
    let [one, other] = ["one", "other"].map(|name| stage.recipes.sleeper(name));
    let ids = stage.up(&sandbox, &pod, &[one, other, told.clone()]).await?;
    let usual = label_of(&stage, &ids[0]).await?;
    ensure!(usual.starts_with("system_u:system_r:container_t:s0:c"), "the usual label is {usual}");
    ensure_eq!(label_of(&stage, &ids[1]).await?, usual);
    ensure_eq!(label_of(&stage, &ids[2]).await?, "system_u:system_r:container_t:s0:c4,c5");
    let file = label_of_file(&stage, "relabelled").await?;
    ensure_eq!(file, "system_u:object_r:container_file_t:s0:c4,c5");
    ensure_eq!(label_of_file(&stage, "kept").await?, before);
    // Containers of any SELinux category must be able to use the pod's `resolv.conf`, `hosts` and `hostname`.
    for file in ["resolv.conf", "hosts", "hostname"] {
        let path = stage.folders.state.join("pods").join(&sandbox).join(file);
        ensure_eq!(label_at(&path).await?, "system_u:object_r:container_file_t:s0", "{file}");
    }

    let known = stage.engine.containers().await?.len();
    for wrong in ["s0,c4,c5", "s9", "s0:c9999"] {
        security_of(&mut told).selinux_options = level(wrong);
        told.metadata.get_or_insert_default().name = "wrong".to_owned();
        match stage.cri.create(&sandbox, &told, &pod).await {
            Ok(id) => fail!("container {id} was made with the level {wrong:?}"),
            Err(refused) => ensure!(refused.message.contains("selinux"), "{wrong:?}: {refused}"),
        }
    }
    ensure_eq!(stage.engine.containers().await?.len(), known);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

#[allow(clippy::unnecessary_wraps, reason = "what the field holds")]
fn level(level: &str) -> Option<cri::SeLinuxOption> {
    Some(cri::SeLinuxOption { level: level.to_owned(), ..Default::default() })
}

/// A directory with a file in it, as a volume of a container.
fn volume(stage: &Stage, name: &str, selinux_relabel: bool) -> Outcome<cri::Mount> {
    let folder = stage.folders.shared.join(name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("file"), "kept")?;
    Ok(cri::Mount {
        host_path: folder.display().to_string(),
        container_path: format!("/{name}"),
        selinux_relabel,
        ..Default::default()
    })
}

async fn label_of_file(stage: &Stage, volume: &str) -> Outcome<String> {
    label_at(&stage.folders.shared.join(volume).join("file")).await
}

async fn label_at(file: &Path) -> Outcome<String> {
    let answer = Command::new("stat").args(["-c", "%C"]).arg(file).output().await?;
    Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

fn has_apparmor() -> bool {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    enabled.is_ok_and(|text| text.starts_with('Y'))
}

/// Loads the story's AppArmor profile into the kernel, or unloads it.
async fn apparmor_parser(verb: &str) -> Outcome {
    let text = format!(
        "profile {OWN_PROFILE} flags=(attach_disconnected,mediate_deleted) {{\n\
         file, network, capability, signal, umount, ptrace,\n\
         deny /tmp/** w,\n}}\n"
    );
    let mut parser = Command::new("apparmor_parser")
        .args([verb, "--skip-cache"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = parser.stdin.take() {
        input.write_all(text.as_bytes()).await?;
    }
    let ended = parser.wait_with_output().await?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "apparmor_parser {verb}: {said}");
    Ok(())
}

fn confined(mut container: Container, kind: ProfileType, name: &str) -> Container {
    security_of(&mut container).apparmor =
        Some(cri::SecurityProfile { profile_type: kind.into(), localhost_ref: name.to_owned() });
    container
}

/// Requests the AppArmor profile in the deprecated field, which kubelet still sets for old runtimes.
#[expect(deprecated, reason = "kubelet still fills it")]
fn confined_as_of_old(mut container: Container, profile: &str) -> Container {
    profile.clone_into(&mut security_of(&mut container).apparmor_profile);
    container
}

fn security_of(container: &mut Container) -> &mut cri::LinuxContainerSecurityContext {
    container.linux.get_or_insert_default().security_context.get_or_insert_default()
}

/// The confinement of the main process: its AppArmor profile and mode, or its SELinux label.
async fn label_of(stage: &Stage, id: &str) -> Outcome<String> {
    let label = of_main_process(stage, id, "attr/current").await?;
    Ok(label.trim_end_matches(['\n', '\0']).to_owned())
}

/// Reads a file in the `/proc` directory of the container's main process.
async fn of_main_process(stage: &Stage, id: &str, file: &str) -> Outcome<String> {
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
    Ok(fs::read_to_string(Path::new("/proc").join(pid).join(file))?)
}

/// Skips a story that this machine cannot run.
#[track_caller]
#[allow(clippy::unnecessary_wraps, reason = "what a story ends with")]
pub(crate) fn left_out(lack: Lack) -> Outcome {
    skip(lack);
    Ok(())
}

const OWN_PROFILE: &str = "dockbridge-story";
