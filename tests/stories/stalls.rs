//! Commands in containers while Docker or its containerd is stopped: callers get an error in time,
//! and no process is left.

use std::{fs, path::PathBuf, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::sleep;
use tonic::Code;

use crate::execs::{Set, until};
use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    remote::{SPDY, Session, Wish, exec_request},
    upgrade::Place,
    world::World,
};

/// The engine stands still for longer than a command may take, then goes on.
pub(crate) async fn of_the_engine(world: World) -> Outcome {
    let set = Set::up(&world, "engine_stalls").await?;
    let engine = Pid::from_raw(set.stage.engine.pid()?);
    let code = stalls(&set, engine, Duration::from_secs(3)).await?;
    // It says nothing about the container: no probe may fail.
    ensure_eq!(code, Some(Code::Unavailable));
    set.clear().await
}

/// Its containerd does, so that the engine takes a command and does not begin it.
pub(crate) async fn of_containerd(world: World) -> Outcome {
    let set = Set::up(&world, "containerd_stalls").await?;
    let code = stalls(&set, containerd(&world)?, Duration::from_millis(1500)).await?;
    ensure_eq!(code, Some(Code::DeadlineExceeded));
    set.clear().await
}

/// The container's shim stands still while dockbridge is killed, and goes on long after the next one
/// began: that one ends the command which begins then.
pub(crate) async fn over_a_crash(world: World) -> Outcome {
    let mut set = Set::up(&world, "stall_over_a_crash").await?;
    let shim = set.shim().await?;
    kill(shim, Signal::SIGSTOP)?;
    let outcome = crash_while_it_begins(&mut set).await;
    kill(shim, Signal::SIGCONT)?;
    outcome?;
    set.nothing_is_left().await?;
    let log = fs::read_to_string(set.stage.bridge.log())?;
    ensure!(log.contains("that an earlier dockbridge left running"), "no command began");
    set.clear().await
}

/// Longer than a start may take that a dockbridge before it had asked for.
async fn crash_while_it_begins(set: &mut Set) -> Outcome {
    let (cri, container) = (set.stage.cri.clone(), set.container.clone());
    let call = tokio::spawn(async move { cri.exec_sync(&container, &["sleep", "8888"], 0).await });
    let log = set.stage.bridge.log().to_owned();
    until(|| Ok(fs::read_to_string(&log)?.contains("engine answered call=start exec"))).await?;
    set.stage.cri = set.stage.bridge.crash().await?;
    ensure!(call.await?.is_err(), "a killed dockbridge answered");
    sleep(Duration::from_secs(15)).await;
    Ok(())
}

/// A command with a second, and a user of a terminal who leaves, while a process is stopped. Returns
/// what the command's caller is told.
async fn stalls(set: &Set, who: Pid, rest: Duration) -> Outcome<Option<Code>> {
    // Promised before: nobody asks the engine for that.
    let request = exec_request(&set.container, &["sleep", "8888"], Wish::Terminal);
    let place = Place::of(&set.stage.cri.exec(&request).await?)?;
    kill(who, Signal::SIGSTOP)?;
    let call = set.stage.cri.exec_sync(&set.container, &["sleep", "8888"], 1);
    let leaves = async {
        drop(Session::open(SPDY, &place, Wish::Terminal).await?);
        sleep(rest).await;
        kill(who, Signal::SIGCONT)?;
        Outcome::Ok(())
    };
    let (answer, left) = tokio::join!(call, leaves);
    kill(who, Signal::SIGCONT)?;
    left?;
    set.nothing_is_left().await?;
    Ok(answer.err().map(|refused| refused.code))
}

impl Set {
    /// The parent of the container's main process.
    async fn shim(&self) -> Outcome<Pid> {
        let pid = ["inspect", "-f", "{{.State.Pid}}", &self.container];
        let pid = self.stage.engine.docker(&pid).await?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Ok(Pid::from_raw(parent.unwrap_or_default().trim().parse()?))
    }

    /// Waits until nothing of the stories' commands runs, and none is noted as one that may.
    async fn nothing_is_left(&self) -> Outcome {
        let marks = self.stage.folders.state.join("execs");
        let ended = || Ok(self.alive("8888")?.is_empty() && fs::read_dir(&marks)?.next().is_none());
        until(ended).await?;
        // What the engine had not begun by then is begun now, and ended, too.
        ensure_eq!(self.run("exit 3", 30).await?.exit_code, 3);
        until(ended).await
    }
}

/// The containerd that this engine keeps for itself.
fn containerd(world: &World) -> Outcome<Pid> {
    let file: PathBuf = world.root.join("docker/exec/containerd/containerd.pid");
    Ok(Pid::from_raw(fs::read_to_string(file)?.trim().parse()?))
}
