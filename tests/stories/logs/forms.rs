//! Tests the forms of container logs: CRI format for several kinds of output, and symbolic links.

use std::{fs, time::Duration};

use tokio::process::Command;

use super::{Scene, until_exited};
use crate::support::{
    bridge,
    cri_log::CriLog,
    engine::Engine,
    failure::{Outcome, ensure, ensure_eq},
    patience::Looks,
    proxy::Proxy,
    stage::Stage,
    world::World,
};

/// The containers write both streams, long lines that the engine stores in parts, a line without an end, and
/// output on a terminal. When dockbridge shows the exit, the CRI log is complete.
pub(crate) async fn as_they_come(world: World) -> Outcome {
    let scene = Scene::on(Stage::docker(&world, "as_they_come").await?).await?;
    let line = "echo 'one  \"two\" \\ three'; echo oops >&2; echo; \
                head -c 40000 /dev/zero | tr '\\0' x; echo; printf 'no end'";
    let (id, log) = scene.add("main", line, false).await?;
    ensure!(log.path().is_file(), "no log when StartContainer returns");
    until_exited(&scene.stage.cri, &id).await?;
    let mut lines = Vec::new();
    log.each(|line| {
        lines.push((line.stream.to_owned(), line.full, line.text.len()));
        Ok(())
    })?;
    let part = 16 * 1024;
    let wanted = [(18, true), (0, true), (part, false), (part, false), (40000 - 2 * part, true)];
    let wanted = wanted.into_iter().chain([(6, false)]);
    let of = |stream: &'static str| lines.iter().filter(move |line| line.0 == stream);
    let stdout: Vec<_> = of("stdout").map(|line| (line.2, line.1)).collect();
    ensure_eq!(stdout, wanted.collect::<Vec<_>>());
    ensure_eq!(of("stderr").count(), 1_usize, "{lines:?}");
    ensure_eq!(log.text("stderr")?, "oops\n");
    ensure!(log.text("stdout")?.starts_with("one  \"two\" \\ three\n\nxxx"), "the text");
    same_times(&scene, &id, &log).await?;

    let line = "echo out; echo err >&2; printf 'no end'";
    let (id, log) = scene.add("terminal", line, true).await?;
    until_exited(&scene.stage.cri, &id).await?;
    ensure_eq!(log.text("stdout")?, "out\r\nerr\r\nno end");
    ensure_eq!(log.text("stderr")?, "");

    for round in 0..5 {
        let (id, log) = scene.add(&format!("quick{round}"), "seq 1 50000", false).await?;
        until_exited(&scene.stage.cri, &id).await?;
        let wanted: String = (1..=50000).map(|number| format!("{number}\n")).collect();
        ensure!(log.text("stdout")? == wanted, "round {round}: not all when the end was shown");
    }
    scene.clear().await
}

/// Checks that the first line of standard output has the same time in the CRI log as in the engine's log, exact
/// to the nanosecond.
async fn same_times(scene: &Scene, id: &str, log: &CriLog) -> Outcome {
    let told = scene.stage.engine.docker(&["logs", "-t", id]).await?;
    let time = |text: &str| text.split(' ').next().unwrap_or_default().parse::<jiff::Timestamp>();
    let first = time(&told)?;
    let mut ours = None;
    log.each(|line| {
        if line.stream == "stdout" && ours.is_none() {
            ours = Some(time(line.time)?);
        }
        Ok(())
    })?;
    ensure_eq!(ours, Some(first));
    Ok(())
}

/// A container with another log driver, as cri-dockerd may have created it, runs and ends without a CRI log,
/// and dockbridge's log names the driver once.
pub(crate) async fn with_another_driver(world: World) -> Outcome {
    let socket = world.root.join("tmp/other-driver.sock");
    let proxy = Proxy::changing(&socket, &world.docker, use_local_driver)?;
    let scene = Scene::on(Stage::behind(&world, "other_driver", proxy.socket()).await?).await?;
    let line = "echo hello; until [ -e /go ]; do usleep 10000; done";
    let (id, log) = scene.add("main", line, false).await?;
    let driver = ["inspect", "-f", "{{.HostConfig.LogConfig.Type}}{{.LogPath}}", &id];
    ensure_eq!(scene.stage.engine.docker(&driver).await?, "local");
    scene.stage.engine.let_go(&id, "/go").await?;
    until_exited(&scene.stage.cri, &id).await?;
    ensure_eq!(scene.stage.engine.docker(&["logs", &id]).await?, "hello");
    ensure!(!log.path().exists(), "a log without an engine's file");
    let told = fs::read_to_string(scene.stage.bridge.log())?;
    let warnings: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("Docker has no log file that dockbridge can read"))
        .collect();
    ensure_eq!(warnings.len(), 1_usize, "{warnings:?}");
    ensure!(warnings[0].contains("local") && warnings[0].contains(&id), "{warnings:?}");
    scene.clear().await?;
    drop(proxy);
    Ok(fs::remove_file(socket)?)
}

/// The daemon has default log options: `max-buffer-size`, with which Docker refuses blocking logs, and some that would
/// repeat labels and variables in each line. The CRI log is still complete, the engine's log has no labels or
/// variables, and `dockbridge check` names `max-buffer-size`.
pub(crate) async fn with_the_daemons_options(world: World) -> Outcome {
    let options = ["mode=non-blocking", "max-buffer-size=4m", "labels-regex=.*", "env-regex=.*"];
    let flags = options.iter().flat_map(|option| ["--log-opt", option]);
    let restart: Vec<&str> = ["restart"].into_iter().chain(flags).collect();
    let engine = Engine::of(world.clone());
    engine.control(&restart).await?;
    let outcome = written_all_the_same(&world).await;
    engine.control(&["restart"]).await?;
    outcome
}

async fn written_all_the_same(world: &World) -> Outcome {
    let stage = Stage::cni(world, "daemons_options").await?;
    let mut check = Command::new(bridge::program());
    let told = check.arg("check").args(stage.bridge.command()).output().await?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    ensure!(told.contains("max-buffer-size"), "the check does not name it:\n{told}");
    let scene = Scene::on(stage).await?;
    let (id, log) = scene.add("main", "seq 1 1000", false).await?;
    until_exited(&scene.stage.cri, &id).await?;
    let wanted: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    ensure!(log.text("stdout")? == wanted, "{} bytes", log.text("stdout")?.len());
    let engines = scene.stage.engine.docker(&["inspect", "-f", "{{.LogPath}}", &id]).await?;
    let engines = fs::read_to_string(engines)?;
    ensure!(!engines.contains("attrs"), "{engines}");
    scene.clear().await
}

/// With `container-log-format = "docker"`, the log path is a symbolic link to the engine's file. dockbridge
/// restores the link after kubelet has renamed it.
pub(crate) async fn as_links(world: World) -> Outcome {
    let stage = Stage::told(&world, "as_links", &["--container-log-format", "docker"]).await?;
    let scene = Scene::on(stage).await?;
    let line = "echo hello; trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done";
    let (id, mut log) = scene.add("main", line, false).await?;
    let engines = scene.stage.engine.docker(&["inspect", "-f", "{{.LogPath}}", &id]).await?;
    let leads = |log: &CriLog| fs::read_link(log.path()).map(|to| to.display().to_string());
    ensure_eq!(leads(&log)?, engines);
    let mut looks = Looks::every(Duration::from_millis(20));
    while looks.again().await && fs::metadata(log.path())?.len() == 0 {}
    let text = fs::read_to_string(log.path())?;
    ensure!(text.starts_with("{\"log\":\"hello\\n\",\"stream\":\"stdout\""), "{text}");
    log.rotate(&scene.stage.cri, &id).await??;
    ensure_eq!(leads(&log)?, engines, "after the rotation");
    ensure_eq!(log.files()?.len(), 1_usize, "kubelet would compress the renamed link");
    scene.clear().await?;
    ensure!(log.path().symlink_metadata().is_err(), "the link stays behind");
    Ok(())
}

/// Changes the create request of a container: the log driver becomes `local`, without options.
fn use_local_driver(request: &mut [u8]) {
    let begin = b"\"LogConfig\":{\"Type\":\"json-file\",\"Config\":{";
    let Some(at) = request.windows(begin.len()).position(|found| found == begin) else { return };
    let rest = &mut request[at..];
    let Some(end) = rest.windows(2).position(|found| found == b"}}") else { return };
    let local = b"\"LogConfig\":{\"Type\":\"local\"}";
    rest[..end + 2].fill(b' ');
    rest[..local.len()].copy_from_slice(local);
}
