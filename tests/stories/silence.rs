//! Tests CRI calls while the engine does not answer (a silence): dockerd or its containerd is frozen, or a proxy holds
//! or loses the answers to changing requests after the engine has acted. The calls return no wrong result and do
//! nothing twice, and the state afterwards is correct. Logs and successful calls lose no output. If answers are lost,
//! Exec, ExecSync and Attach may fail.

use std::{sync::Arc, time::Duration};

use dockbridge::wire::cri::{self, ContainerState as C, PodSandboxState as S};
use nix::unistd::Pid;
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::Code;

use crate::{
    pods::until_exited,
    support::{
        cri::{Answer, Cri},
        cri_log::CriLog,
        engine::Engine,
        failure::{Failure, Outcome, ensure, ensure_eq, fail},
        patience::{Looks, patient},
        process::Stopped,
        random::seeded,
        registry::Registry,
        remote::{SPDY, Session, WEBSOCKET, Way, Wish},
        slow_proxy::{ChangeAnswer, SlowAnswers, SlowProxy},
        stage::Stage,
        stated::is_full_size,
        world::World,
    },
};

/// Makes the calls in [`CALLS`] while dockerd or containerd is frozen.
pub(crate) async fn of_processes(world: World) -> Outcome {
    let engine = Engine::of(world.clone());
    let dockerd = Silence::Stopped("dockerd", Pid::from_raw(engine.pid()?));
    let containerd = Silence::Stopped("containerd", engine.containerd()?);
    at_every_call(&world, "silence_of_processes", &[dockerd, containerd]).await
}

/// Makes the calls in [`CALLS`] while a proxy delays or drops the engine's first answer to each changing request.
pub(crate) async fn of_answers(world: World) -> Outcome {
    at_every_call(&world, "silence_of_answers", &[Silence::HeldAnswers, Silence::LostAnswers]).await
}

/// Makes the calls in [`CALLS`] at random moments of each silence of the engine.
async fn at_every_call(world: &World, story: &str, silences: &[Silence]) -> Outcome {
    let mut random = seeded();
    let proxy = SlowProxy::start(&world.root.join("tmp/silence.sock"), &world.docker)?;
    let stage = Stage::behind(world, story, proxy.socket()).await?;
    let registry = Registry::start().await?;
    let lengths: &[u64] = if is_full_size() { &[400, 2_000, 20_000] } else { &[400] };
    for length in lengths {
        for (number, silence) in silences.iter().enumerate() {
            let length = Duration::from_millis(*length);
            // Pod names differ between rounds, because dockbridge continues the log files of a pod with the same name.
            let name = format!("p{number}-{}", length.as_millis());
            registry.offer(&name, &["1"], 256 << 10, &json!({}));
            let image = format!("{}/{name}:1", registry.address);
            let round = Arc::new(Round::begin(&stage, name, image, (*silence, length)).await?);
            let mut calls = round.calls(&mut random);
            silence.keep(&proxy, length).await?;
            let mut failures = Vec::new();
            while let Some(outcome) = calls.join_next().await {
                failures.extend(outcome?.err().map(|Failure(why)| why));
            }
            proxy.quick();
            failures.extend(round.check(&stage).await.err().map(|Failure(why)| why));
            ensure!(failures.is_empty(), "{silence:?}, {length:?}:\n{}", failures.join("\n"));
            stage.cri.clear().await?;
            stage.cri.remove_image(&round.image).await?;
        }
    }
    stage.leaves_nothing().await
}

/// The reason why the engine does not answer: a frozen process, or a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Stopped(&'static str, Pid),
    HeldAnswers,
    LostAnswers,
}

impl Silence {
    /// Causes this silence of the engine, and returns after the time `length`. A frozen process then continues. The
    /// proxy delays or drops the first answer to each changing request until [`SlowProxy::quick`].
    async fn keep(self, proxy: &SlowProxy, length: Duration) -> Outcome {
        let _stopped = match self {
            Self::Stopped(_, pid) => Some(Stopped::stop(pid)?),
            Self::HeldAnswers | Self::LostAnswers => {
                let is_lost = self == Self::LostAnswers;
                let answer = if is_lost { ChangeAnswer::Lost } else { ChangeAnswer::Held(length) };
                proxy.slow(SlowAnswers { changes: Some(answer), ..SlowAnswers::default() });
                None
            }
        };
        sleep(length).await;
        Ok(())
    }
}

/// The pods and containers that the CRI calls of a round use.
struct Round {
    cri: Cri,
    silence: Silence,
    length: Duration,
    pod: cri::PodSandboxConfig,
    sandbox: String,
    /// The container in which commands run and whose limits are changed.
    main: String,
    /// A command that ends when its terminal has the size that the call `resize` sets.
    terminal: Mutex<Session>,
    /// The container that repeats its input.
    echo: String,
    /// The container that prints numbered lines.
    counting: (String, CriLog),
    /// The container that is stopped. This container prints a line at each SIGTERM, and ends a moment after the first.
    stopping: (String, CriLog),
    removed: String,
    /// The container that is started. This container prints one line and ends.
    fresh: (String, CriLog),
    /// The requests for a pod and a container that are created during the silence.
    others: (cri::PodSandboxConfig, cri::ContainerConfig),
    /// A pod that is stopped, and a pod that is removed.
    leaving: [String; 2],
    image: String,
}

impl Round {
    async fn begin(
        stage: &Stage,
        name: String,
        image: String,
        (silence, length): (Silence, Duration),
    ) -> Outcome<Self> {
        let recipes = &stage.recipes;
        let pod = recipes.pod(&name);
        let sandbox = stage.cri.run(&pod).await?;
        let mut leaving = Vec::new();
        for end in ["stopped", "removed"] {
            let pod = recipes.pod(&format!("{name}-{end}"));
            let id = stage.cri.run(&pod).await?;
            stage.up(&id, &pod, &[recipes.container("ends", "exec sleep 600")]).await?;
            leaving.push(id);
        }
        let last = lines(length) - 1;
        let count = format!(
            "i=0; while [ $i -le {last} ]; do echo line $i; i=$((i+1)); \
             [ $((i % {BURST})) = 0 ] && sleep 0.05; done; exit 4"
        );
        let asked = "trap 'echo asked; sleep 0.2; exit 3' TERM; echo ready; \
                     while :; do sleep 1 & wait $!; done";
        let mut echo = recipes.container("echo", "exec cat");
        echo.stdin = true;
        let configs = [
            recipes.sleeper("main"),
            echo,
            recipes.container("counting", &count),
            recipes.container("stopping", asked),
            recipes.sleeper("removed"),
            recipes.container("fresh", "echo ran; exit 5"),
        ];
        let mut ids = Vec::new();
        for config in &configs {
            ids.push(stage.cri.create(&sandbox, config, &pod).await?);
        }
        for id in [&ids[0], &ids[1], &ids[3], &ids[4], &ids[2]] {
            stage.cri.start(id).await?;
        }
        let logged = |at: usize| (ids[at].clone(), CriLog::of(&pod, &configs[at]));
        let line = "echo ready; until [ \"$(stty size)\" = '45 123' ]; do sleep 0.05; done; \
                    echo sized; exit 9";
        let mut terminal = Session::shell(&stage.cri, SPDY, &ids[0], line, Wish::Terminal).await?;
        terminal.stdout.until("ready\r\n").await?;
        let round = Self {
            cri: stage.cri.clone(),
            silence,
            length,
            terminal: Mutex::new(terminal),
            main: ids[0].clone(),
            echo: ids[1].clone(),
            counting: logged(2),
            stopping: logged(3),
            removed: ids[4].clone(),
            fresh: logged(5),
            others: (recipes.pod(&format!("{name}-later")), recipes.sleeper("later")),
            leaving: [leaving.remove(0), leaving.remove(0)],
            sandbox,
            pod,
            image,
        };
        round.stopping.1.until("ready\n").await?;
        Ok(round)
    }

    /// Starts tasks that make each call in [`CALLS`] at a random moment of the silence, which the caller then begins.
    fn calls(self: &Arc<Self>, random: &mut StdRng) -> JoinSet<Outcome> {
        let mut calls = JoinSet::new();
        let mut at_random = |what: &'static str| {
            let moment = self.length.mul_f64(random.random_range(0.0..1.0));
            let (round, named) = (Arc::clone(self), format!("{what} after {moment:?}"));
            let call = async move {
                sleep(moment).await;
                let limit = round.length * 4 + patient(Duration::from_secs(60));
                let called = timeout(limit, round.call(what)).await;
                let called = called.unwrap_or_else(|_| Err(Failure(format!("not in {limit:?}"))));
                called.map_err(|Failure(why)| Failure(format!("{named}: {why}")))
            };
            calls.spawn(call);
        };
        for what in CALLS {
            at_random(what);
        }
        calls
    }

    async fn call(&self, what: &str) -> Outcome {
        let cri = &self.cri;
        let grace = i64::try_from(self.length.as_secs() + 30)?;
        match what {
            "RunPodSandbox" => drop(repeated(|| cri.run(&self.others.0)).await?),
            "CreateContainer" => {
                repeated(|| cri.create(&self.sandbox, &self.others.1, &self.pod)).await?;
            }
            // kubelet does not repeat StartContainer, so the first call must succeed.
            "StartContainer" => cri.start(&self.fresh.0).await?,
            "StopContainer" => repeated(|| cri.stop_container(&self.stopping.0, grace)).await?,
            "StopPodSandbox" => repeated(|| cri.stop(&self.leaving[0])).await?,
            "RemovePodSandbox" => repeated(|| cri.remove(&self.leaving[1])).await?,
            "RemoveContainer" => cri.remove_container(&self.removed).await?,
            "UpdateContainerResources" => cri.set_shares(&self.main, SHARES).await?,
            "PullImage" => drop(repeated(|| cri.pull(&self.image, None)).await?),
            "ExecSync" => self.exec_sync().await?,
            "Exec" => self.exec(SPDY).await?,
            "Attach" => self.attach(WEBSOCKET).await?,
            "resize" => self.resize().await?,
            other => fail!("no call {other}"),
        }
        Ok(())
    }

    /// Calls ExecSync only once, because a repeated call could run the command twice.
    async fn exec_sync(&self) -> Outcome {
        let line = command("ExecSync");
        match self.cri.exec_sync(&self.main, &["sh", "-c", &line], 0).await {
            Err(refused) if self.loses_output() => ensure_eq!(refused.code, Code::Unavailable),
            answer => {
                let answer = answer?;
                ensure_eq!((answer.exit_code, answer.stdout.len()), (7, OUTPUT));
            }
        }
        Ok(())
    }

    async fn exec(&self, way: Way) -> Outcome {
        let line = command("Exec");
        let mut session = Session::shell(&self.cri, way, &self.main, &line, Wish::Output).await?;
        let ended = session.collect().await?;
        match ended.code() {
            Err(_) if self.loses_output() => ensure!(ended.error.contains("Failure"), "{ended:?}"),
            code => ensure_eq!((code?, ended.stdout.len()), (7, OUTPUT)),
        }
        Ok(())
    }

    async fn attach(&self, way: Way) -> Outcome {
        let attached = self.attached(way).await;
        if attached.is_err() && self.loses_output() { self.attached(way).await } else { attached }
    }

    async fn attached(&self, way: Way) -> Outcome {
        let mut session = Session::attach(&self.cri, way, &self.echo, Wish::Pipes).await?;
        for number in 0..20 {
            session.send(format!("word {number}\n")).await?;
        }
        for number in 0..20 {
            ensure_eq!(session.stdout.until("\n").await?, format!("word {number}\n"));
        }
        Ok(())
    }

    /// Whether the silence loses answers together with their connections, so that output may be lost and a
    /// new stream may fail.
    fn loses_output(&self) -> bool {
        self.silence == Silence::LostAnswers
    }

    async fn resize(&self) -> Outcome {
        let mut session = self.terminal.lock().await;
        session.resize(123, 45).await?;
        session.stdout.until("sized").await?;
        ensure_eq!(session.collect().await?.code()?, 9);
        Ok(())
    }

    /// Checks the effects of the round's calls, except Attach and resize. If answers are lost, the commands of Exec and
    /// ExecSync need not have run.
    async fn check(&self, stage: &Stage) -> Outcome {
        let (fresh, log) = &self.fresh;
        ensure_eq!(until_exited(&self.cri, fresh).await?.exit_code, 5);
        ensure_eq!(log.text("stdout")?, "ran\n");
        let (stopping, log) = &self.stopping;
        ensure_eq!(self.cri.container(stopping).await?.exit_code, 3);
        ensure_eq!(log.text("stdout")?, "ready\nasked\n");
        let (counting, log) = &self.counting;
        ensure_eq!(until_exited(&self.cri, counting).await?.exit_code, 4);
        let wanted: String = (0..lines(self.length)).map(|n| format!("line {n}\n")).collect();
        let told = log.text("stdout")?;
        ensure!(told == wanted, "{} bytes of {} in the log", told.len(), wanted.len());
        let gone = self.cri.container(&self.removed).await.err().map(|refused| refused.code);
        ensure_eq!(gone, Some(Code::NotFound));
        let shares = stage
            .engine
            .docker(&["inspect", "-f", "{{.HostConfig.CpuShares}}", &self.main])
            .await?;
        ensure_eq!(shares, SHARES.to_string());
        ensure!(self.cri.image(&self.image).await?.is_some(), "the image is missing");
        let ran = self.cri.exec_sync(&self.main, &["cat", RAN], 0).await?.stdout;
        let ran = String::from_utf8_lossy(&ran).into_owned();
        for name in ["Exec", "ExecSync"] {
            let times = ran.lines().filter(|line| *line == name).count();
            let is_right = times == 1 || self.loses_output() && times == 0;
            ensure!(is_right, "{name} ran {times} times");
        }
        self.check_lists(stage).await
    }

    /// Checks which pods and containers dockbridge lists and in which states, and how many containers Docker has.
    async fn check_lists(&self, stage: &Stage) -> Outcome {
        let pods = self.cri.sandboxes().await?;
        let ready = pods.iter().filter(|pod| pod.state() == S::SandboxReady).count();
        ensure_eq!((pods.len(), ready), (3, 2));
        let stopped = pods.iter().find(|pod| pod.id == self.leaving[0]);
        ensure_eq!(stopped.map(cri::PodSandbox::state), Some(S::SandboxNotready));
        let containers = self.cri.containers().await?;
        let mut states: Vec<(String, C)> = containers
            .iter()
            .map(|one| (one.metadata.clone().unwrap_or_default().name, one.state()))
            .collect();
        states.sort();
        let wanted = [
            ("counting", C::ContainerExited),
            ("echo", C::ContainerRunning),
            ("ends", C::ContainerExited),
            ("fresh", C::ContainerExited),
            ("later", C::ContainerCreated),
            ("main", C::ContainerRunning),
            ("stopping", C::ContainerExited),
        ];
        ensure_eq!(states, wanted.map(|(name, state)| (name.to_owned(), state)));
        ensure_eq!(stage.engine.containers().await?.len(), pods.len() + containers.len());
        Ok(())
    }
}

/// Repeats a call, as kubelet does, while the call fails with a code in [`SILENT`].
async fn repeated<T, F: Future<Output = Answer<T>>>(call: impl Fn() -> F) -> Outcome<T> {
    let mut looks = Looks::every(Duration::from_millis(100));
    loop {
        match call().await {
            Err(refused) if SILENT.contains(&refused.code) && looks.again().await => {}
            answer => return Ok(answer?),
        }
    }
}

/// The codes of errors that say that the engine cannot be reached or has not answered in time.
const SILENT: [Code; 2] = [Code::Unavailable, Code::DeadlineExceeded];

/// The number of lines of the counting container, which prints for at least half a second longer than the silence.
fn lines(length: Duration) -> u128 {
    (length.as_millis() + 500) / 50 * BURST
}

const CALLS: [&str; 13] = [
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "RemoveContainer",
    "UpdateContainerResources",
    "PullImage",
    "ExecSync",
    "Exec",
    "Attach",
    "resize",
];
/// A command that records its run in a file, and ends right after its output.
fn command(name: &str) -> String {
    format!("echo {name} >>{RAN}; head -c {OUTPUT} /dev/zero | tr '\\0' x; exit 7")
}

const RAN: &str = "/tmp/ran";
const OUTPUT: usize = 40_000;
const SHARES: i64 = 333;
/// The number of lines that a container prints between two pauses of 50 ms.
const BURST: u128 = 50;
