//! Tests the measured size of writable layers, with containers that make measuring hard. Each size may differ
//! from the size that `du` on the host shows for the layer by at most one percent.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::wire::cri;
use tokio::process::Command;

use crate::{
    skips::{Lack, skip},
    support::{
        failure::{Failure, Outcome, ensure, fail},
        patience::Looks,
        stage::Stage,
        world::World,
    },
    user_namespaces::{mapped, mapped_pod},
};

/// Measures layers of containers in an ordinary pod.
pub(crate) async fn of_every_shape(world: World) -> Outcome {
    let stage = Stage::cni(&world, "layer_shapes").await?;
    let pod = stage.recipes.pod("shapes");
    are_measured(stage, pod, |container| container).await
}

/// Measures layers of containers in a pod with a user namespace.
pub(crate) async fn of_mapped_users(world: World) -> Outcome {
    if !world.has_oci_runtime {
        skip(Lack::OciRuntime);
        return Ok(());
    }
    let stage = Stage::cni(&world, "layer_users").await?;
    let pod = mapped_pod(&stage, "shapes");
    are_measured(stage, pod, mapped).await
}

async fn are_measured(
    mut stage: Stage,
    pod: cri::PodSandboxConfig,
    decorated: fn(cri::ContainerConfig) -> cri::ContainerConfig,
) -> Outcome {
    // A directory of the host, whose path a container uses for its own overlay.
    let bait = stage.folders.shared.join("bait");
    fs::create_dir(&bait)?;
    fs::write(bait.join("file"), vec![1; 64 << 20])?;
    let sandbox = stage.cri.run(&pod).await?;
    let lines = [
        ("chroot", chroot_into_a_copy("8")),
        ("overlay", mount_an_overlay("9", &bait)),
        ("deep-70", nest(70, "10")),
        ("deep-2000", nest(2000, "11")),
    ];
    let containers = lines.each_ref().map(|(name, line)| {
        let mut container = stage.recipes.container(name, line);
        let linux = container.linux.get_or_insert_default();
        let capabilities = linux.security_context.get_or_insert_default();
        let capabilities = capabilities.capabilities.get_or_insert_default();
        capabilities.add_capabilities = vec!["SYS_ADMIN".to_owned()];
        decorated(container)
    });
    let ids = stage.up(&sandbox, &pod, &containers).await?;
    let mut layers = Vec::new();
    for (id, (name, _)) in ids.iter().zip(&lines) {
        let layer = layer_of(&stage, id).await?;
        let mut looks = Looks::every(Duration::from_millis(50));
        while looks.again().await && !layer.join("done").exists() {}
        ensure!(layer.join("done").exists(), "{name} did not do its work");
        layers.push((*name, id, layer));
    }
    // A started dockbridge soon measures the layers. Later, it measures a layer again only after ten seconds or more.
    stage.cri = stage.bridge.restart().await?;
    for (name, id, layer) in &layers {
        agrees(&stage, name, id, layer).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A command whose main process changes its root, so that its mount table shows no root.
fn chroot_into_a_copy(mebibytes: &str) -> String {
    format!(
        "mkdir /copy && cp -a /bin /copy/ && {} && touch /done && exec chroot /copy sleep 600",
        write("/copy/big", mebibytes)
    )
}

/// A command that mounts an overlay, and whose main process then has this overlay as its root. The upper
/// directory of the overlay is on a tmpfs and has the same path as the host's directory `bait`.
fn mount_an_overlay(mebibytes: &str, bait: &Path) -> String {
    let (bait, above) = (bait.display(), bait.parent().unwrap_or(bait).display());
    format!(
        "mkdir -p {above} /low /root-of-overlay && cp -a /bin /low/ && {} && \
         mount -t tmpfs tmpfs {above} && mkdir {bait} {above}/work && \
         mount -t overlay -o lowerdir=/low,upperdir={bait},workdir={above}/work overlay /root-of-overlay && \
         touch /done && exec chroot /root-of-overlay sleep 600",
        write("/big", mebibytes)
    )
}

/// A command that creates nested directories in steps of ten.
fn nest(depth: usize, mebibytes: &str) -> String {
    let (step, steps) = (["d"; 10].join("/"), depth / 10);
    format!(
        "i=0; while [ $i -lt {steps} ]; do mkdir -p {step} && cd {step} || exit 1; i=$((i+1)); done; \
         {} && touch /done && exec sleep 600",
        write("big", mebibytes)
    )
}

fn write(file: &str, mebibytes: &str) -> String {
    format!("dd if=/dev/urandom of={file} bs=1M count={mebibytes}")
}

/// The directory of a container's layer on the host, from the engine's inspect or from the host's mount table.
async fn layer_of(stage: &Stage, id: &str) -> Outcome<PathBuf> {
    let format = "{{if .GraphDriver.Data}}{{.GraphDriver.Data.UpperDir}}{{end}}";
    let told = stage.engine.docker(&["inspect", "-f", format, id]).await?;
    if !told.is_empty() {
        return Ok(PathBuf::from(told));
    }
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let line = table.lines().find(|line| line.contains(&format!("/{id} ")));
    let upper = line.and_then(|line| line.split("upperdir=").nth(1)?.split(',').next());
    upper.map(PathBuf::from).ok_or_else(|| Failure(format!("no layer of {id} is mounted")))
}

async fn agrees(stage: &Stage, name: &str, id: &str, layer: &Path) -> Outcome {
    let du =
        Command::new("du").args(["--one-file-system", "-s", "-B1"]).arg(layer).output().await?;
    let du = String::from_utf8_lossy(&du.stdout).into_owned();
    let bytes: u64 = du.split_whitespace().next().unwrap_or_default().parse()?;
    ensure!(bytes > 8 << 20, "{name} wrote {bytes} bytes");
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await {
        let Some(told) = stage.cri.stats(id).await?.writable_layer else { continue };
        let told = told.used_bytes.unwrap_or_default().value;
        println!("  {name}: {told} bytes, du says {bytes}");
        ensure!(told.abs_diff(bytes) * 100 <= bytes, "{name}: {told} bytes, du says {bytes}");
        return Ok(());
    }
    fail!("the layer of {name} was never measured")
}
