//! Tests mounts: the container has them as requested, or dockbridge refuses them.

use std::{fs, os::unix::fs::symlink};

use dockbridge::wire::cri;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tonic::Code;

use crate::{
    security::{of_process, refuses},
    skips::{Lack, skip},
    support::{
        failure::{Outcome, ensure, ensure_eq},
        stage::Stage,
        world::World,
    },
};
use cri::MountPropagation::{PropagationBidirectional, PropagationHostToContainer};

/// Tests each kind of mount propagation, and mounts that the host makes later. The container's status shows the
/// paths of mounts as requested.
pub(crate) async fn propagated(world: World) -> Outcome {
    let stage = Stage::cni(&world, "propagated").await?;
    let source = stage.folders.shared.join("tree");
    fs::create_dir_all(source.join("later"))?;
    let mut container = stage.recipes.sleeper("main");
    let source_text = source.display().to_string();
    container.mounts = vec![
        bind(&source_text, "/private"),
        cri::Mount {
            propagation: PropagationHostToContainer.into(),
            ..bind(&source_text, "/other/../slave")
        },
        cri::Mount {
            propagation: PropagationBidirectional.into(),
            ..bind(&source_text, "/shared")
        },
    ];
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[container.clone()]).await?;
    ensure_eq!(stage.cri.container(&ids[0]).await?.mounts, container.mounts);
    let table = of_process(&stage, &ids[0], "mountinfo").await?;
    for (point, shared, master) in
        [("/private", false, false), ("/slave", false, true), ("/shared", true, false)]
    {
        let line = table.lines().find(|line| line.split(' ').nth(4) == Some(point));
        let line = line.unwrap_or_default();
        ensure!(!line.is_empty(), "{point} is not mounted: {table}");
        // A bidirectional mount is in the peer group of its source, so its line has `shared:`. Only `master:`
        // shows that a mount is a slave.
        ensure_eq!(line.contains(" shared:"), shared, "{line}");
        ensure_eq!(line.contains(" master:"), master, "{line}");
    }
    mount(Some("none"), &source.join("later"), Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    fs::write(source.join("later/file"), "")?;
    let mut seen = Vec::new();
    for point in ["/private", "/slave", "/shared"] {
        let line = format!("test -e {point}/later/file");
        seen.push(stage.engine.inside(&ids[0], &line).await.is_ok());
    }
    umount2(&source.join("later"), MntFlags::MNT_DETACH)?;
    ensure_eq!(seen, [false, true, true]);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Read-only mounts are recursive only if requested. Without dockbridge-runtime, dockbridge refuses recursive
/// read-only mounts on engines before version 25, which cannot make them.
pub(crate) async fn read_only(world: World) -> Outcome {
    let stage = Stage::cni(&world, "read_only").await?;
    let source = stage.folders.shared.join("tree");
    fs::create_dir_all(source.join("sub"))?;
    mount(Some("none"), &source.join("sub"), Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    let told = read_only_told(&stage, &source.display().to_string()).await;
    umount2(&source.join("sub"), MntFlags::MNT_DETACH)?;
    told?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

async fn read_only_told(stage: &Stage, source: &str) -> Outcome {
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    let flat = cri::Mount { readonly: true, ..bind(source, "/m") };
    let deep = cri::Mount { recursive_read_only: true, ..flat.clone() };
    let mut container = stage.recipes.sleeper("flat");
    container.mounts = vec![flat];
    let ids = stage.up(&sandbox, &pod, &[container]).await?;
    ensure_eq!(writes(stage, &ids[0]).await, [false, true]);

    let mut container = stage.recipes.sleeper("deep");
    container.mounts = vec![deep.clone()];
    let handlers = stage.cri.status(false).await?.runtime_handlers;
    let default = handlers.into_iter().find(|handler| handler.name.is_empty());
    let can = default.and_then(|handler| handler.features).unwrap_or_default();
    ensure_eq!(can.recursive_read_only_mounts, stage.world.docker_major >= 25);
    let wrong = [
        cri::Mount { readonly: false, ..deep.clone() },
        cri::Mount { propagation: PropagationHostToContainer.into(), ..deep },
    ];
    if can.recursive_read_only_mounts {
        let ids = stage.up(&sandbox, &pod, &[container.clone()]).await?;
        ensure_eq!(writes(stage, &ids[0]).await, [false, false]);
        ensure_eq!(stage.cri.container(&ids[0]).await?.mounts, container.mounts);
    } else {
        let unsupported = (Code::InvalidArgument, "RROUnsupported: ");
        refuses(stage, (&sandbox, &pod), &container, unsupported).await?;
    }
    for wrong in wrong {
        container.mounts = vec![wrong];
        container.metadata.get_or_insert_default().attempt += 1;
        let words = if can.recursive_read_only_mounts { " needs " } else { "RROUnsupported: " };
        refuses(stage, (&sandbox, &pod), &container, (Code::InvalidArgument, words)).await?;
    }
    Ok(())
}

/// Whether the container can write to the mount, and to the mount below it.
async fn writes(stage: &Stage, id: &str) -> [bool; 2] {
    let at = |line: &'static str| async move { stage.engine.inside(id, line).await.is_ok() };
    [at("touch /m/x").await, at("touch /m/sub/x").await]
}

/// Tests sources of mounts such as symbolic links, files and missing paths. The status shows the requested paths.
pub(crate) async fn of_every_source(world: World) -> Outcome {
    let stage = Stage::cni(&world, "every_source").await?;
    let shared = &stage.folders.shared;
    fs::create_dir_all(shared.join("real/below"))?;
    fs::write(shared.join("real/file"), "content")?;
    symlink("real", shared.join("link"))?;
    let at = |name: &str| shared.join(name).display().to_string();
    let mut container = stage.recipes.sleeper("main");
    container.mounts = vec![
        bind(&at("link"), "/link"),
        bind(&at("link/file"), "/a/file"),
        bind(&at("missing/too"), "/missing/"),
        cri::Mount { readonly: true, selinux_relabel: true, ..bind(&at("real"), "/real") },
        bind(&at("missing"), "/real/below"),
        cri::Mount { readonly: true, ..bind("/", "/host") },
    ];
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[container.clone()]).await?;
    let line = "cat /link/file /a/file /real/file && test -d /missing && test -d /real/below/too";
    ensure_eq!(stage.engine.inside(&ids[0], line).await?, "contentcontentcontent");
    ensure_eq!(stage.cri.container(&ids[0]).await?.mounts, container.mounts);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// CreateContainer refuses a mount that is impossible.
pub(crate) async fn impossible(world: World) -> Outcome {
    let stage = Stage::cni(&world, "impossible").await?;
    let shared = &stage.folders.shared;
    fs::create_dir_all(shared.join("dir"))?;
    fs::write(shared.join("file"), "")?;
    symlink("nothing", shared.join("dangling"))?;
    let at = |name: &str, target: &str| bind(&shared.join(name).display().to_string(), target);
    let ro = cri::Mount { readonly: true, ..at("dir", "/m") };
    let mapping = cri::IdMapping { host_id: 1, container_id: 0, length: 1 };
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    let wrong = Code::InvalidArgument;
    let unable = Code::Unimplemented;
    let mut cases = vec![
        (vec![at("dangling", "/m")], wrong, "config.mounts[0].host_path: "),
        (vec![at("file/", "/m")], wrong, "config.mounts[0].host_path: "),
        (vec![at("file/below", "/m")], wrong, "config.mounts[0].host_path: "),
        (vec![at("dir", "/m"), at("file", "/./m/")], wrong, "config.mounts[1].container_path: "),
        (vec![at("file", "/m"), at("dir", "/m/x")], wrong, "config.mounts[1].container_path: "),
        (vec![ro, at("dir", "/m/x")], wrong, "config.mounts[1].container_path: "),
        (vec![at("dir", "/")], wrong, "config.mounts[0].container_path: "),
        (vec![bind("relative", "/m")], wrong, "config.mounts[0].host_path: "),
    ];
    if !world.has_oci_runtime {
        let ids = vec![mapping];
        let mapped = cri::Mount { uid_mappings: ids.clone(), gid_mappings: ids, ..at("dir", "/m") };
        let options = cri::Mount { mount_options: vec!["noexec".to_owned()], ..at("dir", "/m") };
        cases.push((vec![mapped], unable, "config.mounts[0].uidMappings: "));
        cases.push((vec![options], unable, "config.mounts[0].mount_options: "));
    }
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let root = table.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap_or_default();
    if root.contains(" shared:") || root.contains(" master:") {
        skip(Lack::PrivateMounts);
    } else {
        for way in [PropagationBidirectional, PropagationHostToContainer] {
            let mount = cri::Mount { propagation: way.into(), ..bind("/etc", "/m") };
            cases.push((vec![mount], wrong, "config.mounts[0].propagation: "));
        }
    }
    for (mounts, code, words) in cases {
        let mut container = stage.recipes.sleeper("main");
        container.mounts = mounts;
        refuses(&stage, (&sandbox, &pod), &container, (code, words)).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

fn bind(source: &str, target: &str) -> cri::Mount {
    cri::Mount {
        host_path: source.to_owned(),
        container_path: target.to_owned(),
        ..Default::default()
    }
}
