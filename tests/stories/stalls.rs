//! Tests commands in containers while dockerd, its containerd or a shim is frozen. Callers get an error or the
//! complete output, and no process of a failed command is left.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::wire::cri;
use nix::unistd::Pid;
use tokio::time::sleep;
use tonic::Code;

use crate::execs::{Set, until};
use crate::pods::until_exited;
use crate::support::{
    cri_log::CriLog,
    failure::{Outcome, ensure, ensure_eq, fail},
    process::Stopped,
    remote::{Ended, SPDY, Session, WEBSOCKET, Wish, exec_request},
    stated::is_full_size,
    upgrade::Place,
    world::World,
};

/// The engine is frozen for longer than the timeout of a command, then continues.
pub(crate) async fn of_the_engine(world: World) -> Outcome {
    let set = Set::up(&world, "engine_stalls").await?;
    let engine = Pid::from_raw(set.stage.engine.pid()?);
    let code = stalls(&set, engine, Duration::from_secs(3)).await?;
    // With this code, the error does not count as a failed probe, because it says nothing about the container.
    ensure_eq!(code, Some(Code::Unavailable));
    set.clear().await
}

/// dockerd or its containerd is frozen at the moment when commands and a container end. No output and no exit code is
/// lost, even if a child keeps the output open or the command's timeout expires during the freeze.
pub(crate) async fn at_the_end_of_commands(world: World) -> Outcome {
    let set = Set::up(&world, "stalls_at_ends").await?;
    let dockerd = Pid::from_raw(set.stage.engine.pid()?);
    let containerd = set.stage.engine.containerd()?;
    let mut cases = vec![
        (dockerd, "", 400, 0),
        (dockerd, CHILD, 400, 0),
        // This case runs without [`CHILD`]. With this child, Docker 20.10 would report the ends one after the
        // other, a few seconds apart.
        (dockerd, "", 10_000, 10),
        (containerd, "", 400, 0),
    ];
    if is_full_size() {
        for rest in [2_000, 20_000] {
            cases.extend([(dockerd, CHILD, rest, 0), (containerd, CHILD, rest, 0)]);
        }
    }
    for (who, child, rest, seconds) in cases {
        let case = format!("{child:?}, {who} stopped for {rest} ms, {seconds} s for the command");
        let rest = Duration::from_millis(rest);
        let (answer, ended) = set.ends_in_a_stall(who, child, rest, seconds).await?;
        ensure_eq!((answer.stdout.len(), answer.exit_code), (OUTPUT, 3), "{case}");
        let [attached, streamed @ ..] = &ended[..] else { fail!("nothing was attached") };
        ensure_eq!((attached.stdout.len(), attached.code()?), (OUTPUT, 0), "attached, {case}");
        for ended in streamed {
            ensure_eq!((ended.stdout.len(), ended.code()?), (OUTPUT, 3), "{case}");
        }
    }
    set.clear().await
}

/// containerd is frozen, so the engine accepts a command but does not start it.
pub(crate) async fn of_containerd(world: World) -> Outcome {
    let set = Set::up(&world, "containerd_stalls").await?;
    let code = stalls(&set, set.stage.engine.containerd()?, Duration::from_secs(5)).await?;
    // The command did not start within its timeout of a second. With this code, the error does not count as a
    // failed probe.
    ensure_eq!(code, Some(Code::Unavailable));
    set.clear().await
}

/// The container's shim is frozen while dockbridge is killed, and continues long after the next dockbridge
/// has started. The restarted dockbridge kills the command that begins when the shim continues.
pub(crate) async fn over_a_crash(world: World) -> Outcome {
    let mut set = Set::up(&world, "stall_over_a_crash").await?;
    let shim = set.shim().await?;
    let stopped = Stopped::stop(shim)?;
    crash_while_it_begins(&mut set).await?;
    drop(stopped);
    set.nothing_is_left().await?;
    // The restarted dockbridge logs "killed a command" after it has killed the command.
    let log = set.stage.bridge.log();
    until(|| Ok(fs::read_to_string(log)?.contains("killed a command"))).await?;
    set.clear().await
}

/// Kills dockbridge while a command begins, starts it again, and waits for 15 seconds, in which the new process asks
/// the engine whether the command runs.
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

/// Runs a command with a timeout of one second, and a terminal session whose client leaves, while the process `who` is
/// frozen. Returns the gRPC code of ExecSync's error, if ExecSync failed.
async fn stalls(set: &Set, who: Pid, rest: Duration) -> Outcome<Option<Code>> {
    // dockbridge creates the session's URL before the freeze.
    let request = exec_request(&set.container, &["sleep", "8888"], Wish::Terminal);
    let place = Place::of(&set.stage.cri.exec(&request).await?)?;
    let stopped = Stopped::stop(who)?;
    let call = set.stage.cri.exec_sync(&set.container, &["sleep", "8888"], 1);
    let leaves = async move {
        drop(Session::open(SPDY, &place, Wish::Terminal).await?);
        sleep(rest).await;
        drop(stopped);
        Outcome::Ok(())
    };
    let (answer, left) = tokio::join!(call, leaves);
    left?;
    set.nothing_is_left().await?;
    Ok(answer.err().map(|refused| refused.code))
}

impl Set {
    /// Runs an ExecSync, an exec over SPDY, an exec over WebSocket and an attached container. The main processes of the
    /// commands and of the container end while the process `who` is frozen, after dockbridge has found the processes of
    /// the commands. Returns the answer of the ExecSync, and how the attached client and the two streamed execs ended.
    async fn ends_in_a_stall(
        &self,
        who: Pid,
        child: &str,
        rest: Duration,
        timeout: i64,
    ) -> Outcome<(cri::ExecSyncResponse, Vec<Ended>)> {
        let cri = &self.stage.cri;
        let line = format!(
            "{child}until [ -e /tmp/end ]; do sleep 0.01; done; head -c {OUTPUT} /dev/zero | tr '\\0' x; \
             exit 3"
        );
        let pod = self.stage.recipes.pod("pod");
        let sandboxes = cri.sandboxes().await?;
        let config = self.stage.recipes.container("ends", &line);
        let ends = self.stage.up(&sandboxes[0].id, &pod, std::slice::from_ref(&config)).await?;
        let mut signs = Vec::new();
        for id in [&self.container, &ends[0]] {
            let init = self.stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
            let sign = PathBuf::from(format!("/proc/{init}/root/tmp/end"));
            fs::create_dir_all(format!("/proc/{init}/root/tmp"))?;
            let _ = fs::remove_file(&sign);
            signs.push(sign);
        }
        // ExecSync begins last, because the timeout of its command runs from the command's start.
        let call = async {
            until(|| Ok(self.alive("tmp/end")?.len() == 2)).await?;
            self.run(&line, timeout).await
        };
        let streams = async {
            let open = |way| Session::shell(cri, way, &self.container, &line, Wish::Output);
            let mut attached = Session::attach(cri, SPDY, &ends[0], Wish::Output).await?;
            let (mut one, mut two) = (open(SPDY).await?, open(WEBSOCKET).await?);
            let (attached, one, two) =
                tokio::join!(attached.collect(), one.collect(), two.collect());
            Outcome::Ok(vec![attached?, one?, two?])
        };
        let stalls = async {
            until(|| Ok(self.alive("tmp/end")?.len() == 3)).await?;
            sleep(Duration::from_millis(300)).await;
            let _stopped = Stopped::stop(who)?;
            for sign in &signs {
                fs::write(sign, "")?;
            }
            until(|| Ok(self.alive("tmp/end")?.is_empty())).await?;
            sleep(rest).await;
            Outcome::Ok(())
        };
        let (answer, streamed, stalled) = tokio::join!(call, streams, stalls);
        stalled?;
        ensure_eq!(until_exited(cri, &ends[0]).await?.exit_code, 3);
        let logged = CriLog::of(&pod, &config).text("stdout")?;
        cri.remove_container(&ends[0]).await?;
        fs::remove_file(Path::new(&pod.log_directory).join(&config.log_path))?;
        ensure_eq!(logged.len(), OUTPUT, "in the log");
        Ok((answer?, streamed?))
    }

    /// The process id of the container's shim, which is the parent of the main process.
    async fn shim(&self) -> Outcome<Pid> {
        let pid = ["inspect", "-f", "{{.State.Pid}}", &self.container];
        let pid = self.stage.engine.docker(&pid).await?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Ok(Pid::from_raw(parent.unwrap_or_default().trim().parse()?))
    }

    /// Waits until no process of a command is left, and dockbridge has no record of a command that may still run.
    async fn nothing_is_left(&self) -> Outcome {
        let marks = self.stage.folders.state.join("execs");
        let ended = || Ok(self.alive("8888")?.is_empty() && fs::read_dir(&marks)?.next().is_none());
        until(ended).await?;
        // When this command has run, the engine has also started the commands that it was late to start.
        ensure_eq!(self.run("exit 3", 30).await?.exit_code, 3);
        until(ended).await
    }
}

/// The start of a shell line whose child process keeps the output of the command open.
const CHILD: &str = "sleep 4321 & ";
const OUTPUT: usize = 40_000;
