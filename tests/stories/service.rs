//! Tests dockbridge as a service of a real systemd, with its unit file.

use std::{fs, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::process::Command;

use dockbridge::wire::cri::PodSandboxState;

use crate::{
    machine::left_out,
    skips::Lack,
    support::{
        failure::{Outcome, ensure, ensure_eq, fail},
        patience::Looks,
        stage::Stage,
        world::World,
    },
};

/// `systemctl start` returns when dockbridge's socket answers. systemd restarts a frozen dockbridge, whose pod stays
/// ready. `systemctl stop` ends dockbridge gracefully.
pub(crate) async fn kept_by_systemd(world: World) -> Outcome {
    if !world.has_systemd_driver() {
        return left_out(Lack::Systemd);
    }
    let mut stage = Stage::cni(&world, "kept_by_systemd").await?;
    stage.bridge.stop().await?;
    install(&stage)?;
    systemctl(&["daemon-reload"]).await?;
    systemctl(&["start", UNIT]).await?;
    // The test need not wait for the socket, because `systemctl start` has waited.
    stage.cri = stage.bridge.cri().await?;
    stage.cri.version().await?;
    ensure_eq!(shown("ActiveState,SubState").await?, "active\nrunning");
    let mut looks = Looks::every(Duration::from_millis(100));
    while shown("StatusText").await? != SERVING {
        ensure!(looks.again().await, "the status is {:?}", shown("StatusText").await?);
    }
    let pod = stage.recipes.pod("steady");
    let sandbox = stage.cri.run(&pod).await?;

    let deaf = shown("MainPID").await?;
    kill(Pid::from_raw(deaf.parse()?), Signal::SIGSTOP)?;
    let mut looks = Looks::every(Duration::from_millis(500));
    while shown("NRestarts,ActiveState,SubState").await? != "1\nactive\nrunning" {
        if !looks.again().await {
            fail!("it was not started anew: {}", systemctl(&["status", UNIT]).await?);
        }
    }
    ensure!(shown("MainPID").await? != deaf, "it is still process {deaf}");
    stage.cri = stage.bridge.cri().await?;
    ensure_eq!(stage.cri.sandbox(&sandbox).await?.state(), PodSandboxState::SandboxReady);
    stage.cri.clear().await?;

    systemctl(&["stop", UNIT]).await?;
    ensure_eq!(shown("ActiveState,Result").await?, "inactive\nsuccess");
    ensure!(!stage.bridge.socket().exists(), "the socket is still there after a stop");
    fs::remove_file(format!("/run/systemd/system/{UNIT}"))?;
    systemctl(&["daemon-reload"]).await?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    stage.leaves_nothing().await
}

/// Installs the unit file with the program, the directories and the engine of this test.
fn install(stage: &Stage) -> Outcome {
    let start = format!(
        "ExecStart={} serve {}",
        env!("CARGO_BIN_EXE_dockbridge"),
        stage.bridge.command().join(" ")
    );
    let mut unit = include_str!("../../packaging/systemd/dockbridge.service").to_owned();
    // Replaces the command by one for the engine of this world, and leaves out `Wants=` of the machine's units.
    for (line, instead) in
        [(SHIPPED_START, start.as_str()), ("\nWants=docker.service dockbridge.socket\n", "\n")]
    {
        ensure_eq!(unit.matches(line).count(), 1);
        unit = unit.replace(line, instead);
    }
    Ok(fs::write(format!("/run/systemd/system/{UNIT}"), unit)?)
}

/// Reads properties of the unit, whose names are separated by commas, and returns one value per line.
async fn shown(properties: &str) -> Outcome<String> {
    let mut values = Vec::new();
    for property in properties.split(',') {
        values.push(systemctl(&["show", "--value", "--property", property, UNIT]).await?);
    }
    Ok(values.join("\n"))
}

async fn systemctl(arguments: &[&str]) -> Outcome<String> {
    let ended = Command::new("systemctl").args(arguments).output().await?;
    let said = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.success() || arguments.first() == Some(&"status"),
        "systemctl {}: {complaint}{said}",
        arguments.join(" ")
    );
    Ok(said)
}

const UNIT: &str = "dockbridge-story.service";
const SHIPPED_START: &str = "ExecStart=/usr/bin/dockbridge serve";
const SERVING: &str = "serving the container runtime interface";
