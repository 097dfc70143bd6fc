//! What only a whole machine can show: systemd as keeper of the cgroups, cgroup v2, AppArmor.

use std::{fs, path::Path};

use dockbridge::wire::cri;

use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    stage::Stage,
    world::World,
};

/// RuntimeConfig tells kubelet the engine's driver, and pods of a slice live in that slice.
pub(crate) async fn keeps_pods_in_slices(world: World) -> Outcome {
    if !world.has_systemd_driver() {
        return skip("the engine's cgroup driver is not systemd");
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

/// A container that asks for nothing has the engine's own profile, an unconfined one has none.
pub(crate) async fn confines_with_apparmor(world: World) -> Outcome {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    if !enabled.is_ok_and(|text| text.starts_with('Y')) {
        return skip("the kernel has no AppArmor");
    }
    let stage = Stage::cni(&world, "apparmor").await?;
    let pod = stage.recipes.pod("confined");
    let sandbox = stage.cri.run(&pod).await?;
    let usual = stage.recipes.sleeper("usual");
    let mut free = stage.recipes.sleeper("free");
    let linux = free.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default().apparmor = Some(cri::SecurityProfile {
        profile_type: cri::security_profile::ProfileType::Unconfined.into(),
        localhost_ref: String::new(),
    });
    let ids = stage.up(&sandbox, &pod, &[usual, free]).await?;
    let profile = of_main_process(&stage, &ids[0], "attr/current").await?;
    ensure_eq!(profile.trim_end_matches(['\n', '\0']), "docker-default (enforce)");
    let profile = of_main_process(&stage, &ids[1], "attr/current").await?;
    ensure_eq!(profile.trim_end_matches(['\n', '\0']), "unconfined");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A file of the main process's folder in /proc.
async fn of_main_process(stage: &Stage, id: &str, file: &str) -> Outcome<String> {
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
    Ok(fs::read_to_string(Path::new("/proc").join(pid).join(file))?)
}

#[allow(clippy::unnecessary_wraps, reason = "what a story ends with")]
fn skip(reason: &str) -> Outcome {
    println!("  skipped: {reason} (make test-vm has it)");
    Ok(())
}
