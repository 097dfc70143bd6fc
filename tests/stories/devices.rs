//! Tests devices of the host in containers: they have the requested permissions, or dockbridge refuses them
//! with an error that names the field of the request.

use std::{fs, os::unix::fs::symlink, path::Path};

use dockbridge::wire::cri;
use tonic::Code;

use crate::{
    machine::left_out,
    security::refuses,
    skips::Lack,
    support::{
        failure::{Outcome, ensure_eq},
        stage::Stage,
        world::World,
    },
};

/// The requests are a single device, a device through a symbolic link, a path without a leading slash, devices
/// with only one of the permissions, and a directory of devices. Without a request, `/dev/fuse` is not available.
pub(crate) async fn granted(world: World) -> Outcome {
    if !Path::new(DEVICE).exists() || !Path::new("/dev/net/tun").exists() {
        return left_out(Lack::Devices);
    }
    let stage = Stage::cni(&world, "granted").await?;
    let link = stage.folders.shared.join("link").display().to_string();
    symlink(DEVICE, &link)?;
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    for (name, asked, can) in [
        ("none", vec![], [false, false]),
        ("all", vec![device(DEVICE, "/dev/given", "")], [true, true]),
        ("linked", vec![device(&link, "/dev/given", "rw")], [true, true]),
        ("relative", vec![device(DEVICE, "dev/given", "rw")], [true, true]),
        ("reading", vec![device(DEVICE, "/dev/given", "r")], [true, false]),
        ("writing", vec![device(DEVICE, "/dev/given", "w")], [false, true]),
        ("making", vec![device(DEVICE, "/dev/given", "m")], [false, false]),
    ] {
        let mut container = stage.recipes.sleeper(name);
        container.devices = asked;
        let ids = stage.up(&sandbox, &pod, &[container]).await?;
        let path = if name == "none" { "/tmp/made" } else { "/dev/given" };
        let made =
            if name == "none" { format!("mknod {path} c {NUMBERS}") } else { "true".to_owned() };
        stage.engine.inside(&ids[0], &made).await?;
        let read = stage.engine.inside(&ids[0], &format!(": < {path}")).await.is_ok();
        let write = stage.engine.inside(&ids[0], &format!(": > {path}")).await.is_ok();
        ensure_eq!([read, write], can, "{name}");
    }
    let mut container = stage.recipes.sleeper("directory");
    container.devices = vec![device("/dev/net", "/dev/other", "rw")];
    let ids = stage.up(&sandbox, &pod, &[container]).await?;
    stage.engine.inside(&ids[0], "test -c /dev/other/tun").await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// dockbridge refuses device paths that are missing, files that are not devices, directories without devices,
/// and unknown permissions.
pub(crate) async fn refused(world: World) -> Outcome {
    let stage = Stage::cni(&world, "no_devices").await?;
    let at = |name: &str| stage.folders.shared.join(name).display().to_string();
    fs::write(at("file"), "")?;
    fs::create_dir(at("empty"))?;
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    for (path, permissions, words) in [
        ("/dev/of/nobody".to_owned(), "", "devices[1].host_path: there is no such device"),
        (at("file"), "rwm", "devices[1].host_path: the file is not a device"),
        (at("empty"), "r", "devices[1].host_path: there is no device in this directory"),
        ("/dev/null".to_owned(), "x", "devices[1].permissions: "),
    ] {
        let mut container = stage.recipes.sleeper("main");
        container.devices =
            vec![device("/dev/null", "/dev/fine", "rwm"), device(&path, "/dev/x", permissions)];
        refuses(&stage, (&sandbox, &pod), &container, (Code::InvalidArgument, words)).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

fn device(host: &str, container: &str, permissions: &str) -> cri::Device {
    cri::Device {
        host_path: host.to_owned(),
        container_path: container.to_owned(),
        permissions: permissions.to_owned(),
    }
}

/// The path of the requested device. Opening the device has no effect, and no engine gives containers access to
/// the device by default.
const DEVICE: &str = "/dev/fuse";
const NUMBERS: &str = "10 229";
