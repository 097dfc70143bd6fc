//! ExecSync on a real engine: exact output, and no processes left after a timeout.

use std::{
    fs,
    time::{Duration, Instant},
};

use dockbridge::{engine::client, wire::cri};
use tokio::{task::JoinSet, time::sleep};
use tonic::Code;

use crate::restarts::until_ready;
use crate::support::{
    engine::Engine,
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::{Looks, patient},
    process::Process,
    stage::Stage,
    stated::is_full_size,
    world::World,
};

/// A pod with a running container for commands. [`Set::clear`] removes the pod.
pub(crate) struct Set {
    pub(crate) stage: Stage,
    pub(crate) container: String,
    api: client::Engine,
}

impl Set {
    pub(crate) async fn up(world: &World, story: &str) -> Outcome<Self> {
        let stage = Stage::docker(world, story).await?;
        let pod = stage.recipes.pod("pod");
        let sandbox = stage.cri.run(&pod).await?;
        let mut main = stage.recipes.sleeper("main");
        // The memory of a starting runc counts as the container's memory. Fifty commands that start at once would
        // exceed the usual memory limit, so this container has no limit.
        if let Some(resources) = main.linux.as_mut().and_then(|linux| linux.resources.as_mut()) {
            resources.memory_limit_in_bytes = 0;
        }
        let ids = stage.up(&sandbox, &pod, &[main]).await?;
        let container = ids.into_iter().next().unwrap_or_default();
        let api = client::Engine::new(world.docker.clone(), client::Timeouts::default());
        Ok(Self { stage, container, api })
    }

    pub(crate) async fn run(&self, line: &str, timeout: i64) -> Outcome<cri::ExecSyncResponse> {
        Ok(self.stage.cri.exec_sync(&self.container, &["sh", "-c", line], timeout).await?)
    }

    /// Runs a shell line that must exceed its timeout of one second. If a busy engine does not start the command within
    /// one second, ExecSync returns another error, and this function runs the line again.
    async fn times_out(&self, line: &str) -> Outcome {
        let mut looks = Looks::every(Duration::ZERO);
        while looks.again().await {
            match self.stage.cri.exec_sync(&self.container, &["sh", "-c", line], 1).await {
                Err(refused) if refused.code == Code::DeadlineExceeded => {
                    ensure!(refused.message.contains("timed out"), "{refused}");
                    ensure!(refused.message.ends_with("after 1s"), "not clean: {refused}");
                    return Ok(());
                }
                Err(refused) if refused.message.contains("has not started the command") => {
                    ensure_eq!(refused.code, Code::Unavailable, "{refused}");
                    // dockbridge kills the late command when the command begins.
                    while looks.again().await && self.execs().await? > 0 {}
                }
                other => fail!("{line:?} was not timed out: {other:?}"),
            }
        }
        fail!("the engine starts no command within a second");
    }

    /// Host pid and command line of each of the container's processes whose command line contains `word`.
    pub(crate) fn alive(&self, word: &str) -> Outcome<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let inside = read("cgroup").contains(&self.container);
            let dead = read("stat").contains(") Z ");
            if inside && !dead && read("cmdline").contains(word) {
                found.push(format!("{} {}", entry.file_name().display(), read("cmdline")));
            }
        }
        Ok(found)
    }

    /// The number of execs that the engine keeps for the container, without those that never had a process. dockbridge
    /// does not start an exec if the engine creates it too late, and the engine keeps such an exec until the container
    /// ends.
    async fn execs(&self) -> Outcome<usize> {
        let format = "{{range .ExecIDs}}{{.}} {{end}}";
        let ids = self.stage.engine.docker(&["inspect", "-f", format, &self.container]).await?;
        let mut begun = 0;
        for id in ids.split_whitespace() {
            match self.api.inspect_exec(id).await {
                Ok(exec) => begun += usize::from(exec.pid.is_some()),
                Err(error) if error.is_not_found() => {}
                Err(error) => fail!("{error}"),
            }
        }
        Ok(begun)
    }

    async fn start_again(&mut self) -> Outcome {
        self.stage.bridge.spawn().await?;
        self.stage.cri = self.stage.bridge.cri().await?;
        Ok(())
    }

    pub(crate) async fn clear(self) -> Outcome {
        self.stage.cri.clear().await?;
        self.stage.leaves_nothing().await
    }
}

/// Tests ExecSync's output on both streams and its size limit, exit codes, empty input, and programs that cannot start.
pub(crate) async fn exact(world: World) -> Outcome {
    let set = Set::up(&world, "exact").await?;
    let answer = set.run("printf 'a\\000b\\n'; printf 'no newline' >&2; exit 42", 10).await?;
    ensure_eq!(answer.stdout, b"a\0b\n");
    ensure_eq!(answer.stderr, b"no newline");
    ensure_eq!(answer.exit_code, 42);
    let answer = set.run("kill -9 $$", 10).await?;
    ensure_eq!(answer.exit_code, 137);
    let answer = set.run("cat; exit 3", 10).await?;
    ensure_eq!((answer.stdout.len(), answer.exit_code), (0, 3), "input is empty");
    for (program, code) in [("/no/such/program", 127), ("/etc", 126)] {
        let answer = set.stage.cri.exec_sync(&set.container, &[program], 10).await?;
        let text = [answer.stdout, answer.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        ensure!((126..=127).contains(&answer.exit_code), "{program}: {} {text}", answer.exit_code);
        ensure!(text.contains("OCI runtime exec failed"), "{program}: {code} {text:?}");
    }
    for _ in 0..20 {
        let answer =
            set.run("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done", 30).await?;
        let wanted: String = (0..2000).map(|i| format!("{i}\n")).collect();
        ensure!(answer.stdout == wanted.as_bytes(), "{} bytes", answer.stdout.len());
    }
    let answer =
        set.run("yes o | head -c 12000000; yes e | head -c 12000000 >&2; exit 5", 60).await?;
    ensure_eq!(answer.exit_code, 5);
    let kept = answer.stdout.len() + answer.stderr.len();
    ensure_eq!(kept, dockbridge::container::exec_output::MOST_OUTPUT);
    ensure_eq!(set.execs().await?, 0);
    set.clear().await
}

/// ExecSync does not wait for the end of a child process that keeps the command's output open, and the child keeps
/// running.
pub(crate) async fn a_child_holds_the_output(world: World) -> Outcome {
    let set = Set::up(&world, "a_child_holds_the_output").await?;
    let begun = Instant::now();
    let answer = set.run("sleep 4321 & echo mine; exit 6", 60).await?;
    ensure_eq!((answer.stdout.as_slice(), answer.exit_code), (&b"mine\n"[..], 6));
    ensure!(begun.elapsed() < Duration::from_secs(30), "took {:?}", begun.elapsed());
    println!("  a child held the output for {:.1?} of the call", begun.elapsed());
    ensure_eq!(set.alive("4321")?.len(), 1);
    set.clear().await
}

/// After a timeout of ExecSync, all processes of the command are gone, and the container's other processes still run.
pub(crate) async fn out_of_time(world: World) -> Outcome {
    let set = Set::up(&world, "out_of_time").await?;
    set.run("sleep 5555 >/dev/null 2>&1 & exit 0", 10).await?;
    for line in [
        "exec sleep 7777",
        "sleep 7777",
        "sleep 7777 & sleep 7777 & wait",
        "trap '' TERM HUP INT; sleep 7777; sleep 7777",
        "setsid sleep 7777 & sleep 7777",
        "setsid sh -c 'sleep 7777 >/dev/null 2>&1 </dev/null &'; sleep 7777",
        "(setsid sh -c '(sleep 7777 & exec sleep 7777) >/dev/null 2>&1 </dev/null &' &); sleep 7777",
        "exec >/dev/null 2>&1; (setsid sleep 7777 &); sleep 7777",
        "while :; do sleep 7777 & sleep 0.01; done",
        "yes",
    ] {
        set.times_out(line).await?;
        let left = [set.alive("7777")?, set.alive("yes")?].concat();
        ensure!(left.is_empty(), "{line:?} left {left:?}");
        ensure_eq!(set.execs().await?, 0, "after {line:?}");
    }
    // The command writes to the pipe of the container's main process. The process of `worker` also writes to this pipe,
    // but does not belong to the command, so dockbridge must not kill it.
    let line = "exec >/proc/1/fd/1 2>&1; sleep 7777";
    let worker = async {
        while set.alive("7777")?.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
        set.run("sleep 6666 >/proc/1/fd/1 2>&1 & exit 0", 10).await
    };
    let (over, begun) = tokio::join!(set.times_out(line), worker);
    over?;
    begun?;
    ensure!(set.alive("7777")?.is_empty(), "left after {line:?}");
    ensure_eq!(set.alive("6666")?.len(), 1, "a process of the workload was killed");
    ensure_eq!(set.alive("5555")?.len(), 1, "a stranger was killed");
    let running = set.stage.cri.container(&set.container).await?.state();
    ensure_eq!(running, cri::ContainerState::ContainerRunning);
    set.clear().await
}

/// When dockbridge stops, it kills the commands of ExecSync and does not wait until they end by themselves.
pub(crate) async fn dockbridge_is_stopped(world: World) -> Outcome {
    let mut set = Set::up(&world, "dockbridge_is_stopped").await?;
    let (cri, container) = (set.stage.cri.clone(), set.container.clone());
    let call = tokio::spawn(async move {
        let line = "(setsid sleep 8888 >/dev/null 2>&1 &); sleep 8888";
        cri.exec_sync(&container, &["sh", "-c", line], 0).await.map_err(|refused| refused.code)
    });
    while set.alive("8888")?.len() < 2 {
        sleep(Duration::from_millis(20)).await;
    }
    set.stage.bridge.stop().await?;
    ensure_eq!(call.await?.err(), Some(Code::Unavailable));
    let left = set.alive("8888")?;
    ensure!(left.is_empty(), "left {left:?}");
    set.start_again().await?;
    set.clear().await
}

/// A killed dockbridge leaves commands of ExecSync running, and the restarted dockbridge kills them. The restarted
/// dockbridge does not kill child processes that finished commands left on purpose.
pub(crate) async fn dockbridge_is_killed(world: World) -> Outcome {
    let mut set = Set::up(&world, "dockbridge_is_killed").await?;
    set.run("setsid sleep 5555 >/dev/null 2>&1 </dev/null & exit 0", 10).await?;
    let (cri, container) = (set.stage.cri.clone(), set.container.clone());
    let call = tokio::spawn(async move {
        let line = "(setsid sleep 8888 >/dev/null 2>&1 </dev/null &); sleep 8888";
        cri.exec_sync(&container, &["sh", "-c", line], 0).await.map_err(|refused| refused.code)
    });
    until(|| Ok(set.alive("8888")?.len() >= 2)).await?;
    set.stage.cri = set.stage.bridge.crash().await?;
    ensure!(call.await?.is_err(), "a killed dockbridge answered");
    until(|| Ok(set.alive("8888")?.is_empty())).await?;
    ensure_eq!(set.alive("5555")?.len(), 1, "what was left on purpose");
    // The restarted dockbridge started this command, so it must not kill the command as a leftover.
    let answer = set.run("sleep 12; echo mine", 30).await?;
    ensure_eq!((answer.stdout.as_slice(), answer.exit_code), (&b"mine\n"[..], 0));
    set.clear().await
}

/// The engine is killed during an ExecSync, and its containers keep running. ExecSync fails, and dockbridge kills the
/// command.
pub(crate) async fn the_engine_is_killed(world: World) -> Outcome {
    Engine::of(world.clone()).control(&["restart", "--live-restore"]).await?;
    let set = Set::up(&world, "the_engine_is_killed").await?;
    let engine = &set.stage.engine;
    for comes_back in [false, true] {
        let (cri, container) = (set.stage.cri.clone(), set.container.clone());
        let call = tokio::spawn(async move {
            let line = "(setsid sleep 8888 >/dev/null 2>&1 </dev/null &); sleep 8888";
            cri.exec_sync(&container, &["sh", "-c", line], 0).await.map_err(|refused| refused.code)
        });
        until(|| Ok(set.alive("8888")?.len() >= 2)).await?;
        engine.control(&["kill"]).await?;
        if comes_back {
            engine.control(&["start", "--live-restore"]).await?;
        }
        let answer = tokio::time::timeout(patient(Duration::from_secs(30)), call).await;
        let Ok(answer) = answer else { fail!("the call hangs") };
        ensure_eq!(answer?.err(), Some(Code::Unavailable));
        until(|| Ok(set.alive("8888")?.is_empty())).await?;
        engine.control(&["start", "--live-restore"]).await?;
        until_ready(&set.stage.cri).await?;
    }
    set.stage.cri.clear().await?;
    engine.control(&["restart"]).await?;
    until_ready(&set.stage.cri).await?;
    set.stage.leaves_nothing().await
}

pub(crate) async fn until(holds: impl Fn() -> Outcome<bool>) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(50));
    while looks.again().await {
        if holds()? {
            return Ok(());
        }
    }
    fail!("it did not come true")
}

/// When the caller of an ExecSync disconnects, dockbridge kills the command.
pub(crate) async fn the_caller_leaves(world: World) -> Outcome {
    let set = Set::up(&world, "the_caller_leaves").await?;
    for timeout in [0, 600] {
        let line = "(setsid sleep 8888 >/dev/null 2>&1 &); sleep 8888";
        tokio::select! {
            ended = set.run(line, timeout) => fail!("it ended by itself: {ended:?}"),
            running = until(|| Ok(set.alive("sleep\08888")?.len() == 2)) => running?,
        }
        until(|| Ok(set.alive("8888")?.is_empty())).await?;
    }
    set.clear().await
}

/// Hundreds of timeouts, fifty at a time, leave no process in the container, no exec or open descriptor in the engine,
/// and no thread or open descriptor in dockbridge.
pub(crate) async fn hundreds_out_of_time(world: World) -> Outcome {
    let mut set = Set::up(&world, "hundreds_out_of_time").await?;
    // The engine's descriptors are counted while dockbridge is stopped, because dockbridge's idle connections
    // stay open for up to a minute.
    set.stage.bridge.stop().await?;
    let engine = Process(u32::try_from(set.stage.engine.pid()?)?);
    let most = engine.descriptors()? + 6;
    set.start_again().await?;
    batch(&set, 50).await?;
    let before = Counts::of(&set)?;
    for _ in 0..if is_full_size() { 20 } else { 4 } {
        batch(&set, 50).await?;
    }
    // If a busy engine starts a command after ExecSync has failed, dockbridge kills the command once it runs.
    let mut looks = Looks::within(ALL_KILLED, Duration::from_millis(100));
    while looks.again().await && set.execs().await? > 0 {}
    ensure_eq!(set.execs().await?, 0);
    until(|| Ok(set.alive("9999")?.is_empty())).await?;
    let mut looks = Looks::within(IDLE_CONNECTIONS_CLOSED, Duration::from_millis(100));
    while looks.again().await && !Counts::of(&set)?.fits(&before) {}
    let after = Counts::of(&set)?;
    println!("  before {before:?}\n  after  {after:?}");
    ensure!(after.fits(&before), "before {before:?}, after {after:?}");
    set.stage.bridge.stop().await?;
    // The engine closes only its writing side of a hijacked connection. Go's garbage collector, which runs at least
    // every two minutes, closes the reading side.
    let mut looks = Looks::within(COLLECTED, Duration::from_millis(100));
    while looks.again().await && engine.descriptors()? > most {
        if !is_full_size() {
            set.stage.engine.collect_garbage().await?;
        }
    }
    let kept = engine.descriptors()?;
    ensure!(kept <= most, "the engine keeps {kept} descriptors, expected {most}");
    set.start_again().await?;
    set.clear().await
}

async fn batch(set: &Set, count: usize) -> Outcome {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let (cri, container) = (set.stage.cri.clone(), set.container.clone());
        calls.spawn(async move {
            let line = "(setsid sleep 9999 >/dev/null 2>&1 &); sleep 9999";
            cri.exec_sync(&container, &["sh", "-c", line], 1).await
        });
    }
    while let Some(outcome) = calls.join_next().await {
        let refused = match outcome? {
            Err(refused) => refused,
            Ok(answer) => fail!("it ended by itself: {answer:?}"),
        };
        let late = refused.message.contains("has not started the command");
        let code = if late { Code::Unavailable } else { Code::DeadlineExceeded };
        ensure_eq!(refused.code, code, "{refused}");
    }
    Ok(())
}

/// The numbers of dockbridge's open descriptors and threads.
#[derive(Debug)]
struct Counts {
    descriptors: usize,
    threads: u64,
}

impl Counts {
    fn of(set: &Set) -> Outcome<Self> {
        let Some(bridge) = set.stage.bridge.pid().map(Process) else { fail!("no dockbridge") };
        Ok(Self { descriptors: bridge.descriptors()?, threads: bridge.threads()? })
    }

    /// Whether each number is at most three larger than in `before`: some descriptors and threads are short-lived.
    fn fits(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors + 3 && self.threads <= before.threads + 3
    }
}

/// How long dockbridge keeps trying to kill a command.
const ALL_KILLED: Duration = Duration::from_secs(300);
/// Longer than dockbridge's connection pool keeps an unused connection.
const IDLE_CONNECTIONS_CLOSED: Duration = Duration::from_secs(90);
/// How long the engine may keep closed connections: twice the longest time between two runs of its garbage collector.
const COLLECTED: Duration = Duration::from_secs(240);
