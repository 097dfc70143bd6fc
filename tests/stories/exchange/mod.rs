//! The stories exchange the engine's programs (dockerd, containerd, its shim and runc) while pods run, as an
//! upgrade of Docker does. In some stories dockbridge is restarted or killed, in the others it runs all the
//! time. If a container of `docker run` survives an exchange, no pod's container that the same engine started may end.
//! `make exchange` prints a table of all exchanges.

mod crew;
pub(crate) mod image_store;
pub(crate) mod programs;
mod watch;

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rand::Rng;
use tokio::{process::Command, time::sleep};

use self::{
    crew::{Crew, Fate, Fates, Kind},
    watch::Watch,
};
use crate::{
    restarts::until_ready,
    support::{
        bridge::program,
        engine::Engine,
        failure::{Failure, Outcome, ensure, ensure_eq, fail},
        forwarding::{Forward, Line, Route},
        inside::{Manner, Server},
        leftovers::files_below,
        patience::{Looks, patient},
        random::seeded,
        stage::Stage,
        stated::is_full_size,
        world::World,
    },
};

/// Exchanges the engine's programs. Pods use CNI, and `live-restore` is on.
pub(crate) async fn with_live_restore(world: World) -> Outcome {
    let way = Way { network: Network::Cni, live: true, beside: Beside::Nothing };
    exchanged(&world, "exchange_live", way).await
}

/// Exchanges the engine's programs. Pods use CNI, and `live-restore` is off, so every container ends with the engine.
pub(crate) async fn without_live_restore(world: World) -> Outcome {
    let way = Way { network: Network::Cni, live: false, beside: Beside::Nothing };
    exchanged(&world, "exchange_ends", way).await
}

/// Exchanges the engine's programs. Pods use the engine's own network, and `live-restore` is on.
pub(crate) async fn on_the_engines_network(world: World) -> Outcome {
    let way = Way { network: Network::Docker, live: true, beside: Beside::Nothing };
    exchanged(&world, "exchange_docker", way).await
}

/// dockerd is killed instead of stopped, and killed again during or soon after several starts with the new programs.
/// The test also kills dockbridge.
pub(crate) async fn cut_off(world: World) -> Outcome {
    let way = Way { network: Network::Cni, live: true, beside: Beside::Kills };
    exchanged(&world, "exchange_cut", way).await
}

/// dockbridge is restarted in the same upgrade as the engine, both before and after the engine.
pub(crate) async fn with_dockbridge(world: World) -> Outcome {
    let way = Way { network: Network::Cni, live: true, beside: Beside::Restarts };
    exchanged(&world, "exchange_both", way).await
}

/// How a story exchanges the engine.
#[derive(Clone, Copy, Debug)]
struct Way {
    network: Network,
    live: bool,
    beside: Beside,
}

/// What a story does in addition to the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// dockbridge restarts right before and right after the exchange.
    Restarts,
    /// The engine and dockbridge are killed during the exchange.
    Kills,
}

impl Way {
    /// The flags that dockerd gets only in some stories.
    const fn flags(self) -> &'static [&'static str] {
        if self.live { &[LIVE_RESTORE] } else { &[] }
    }
}

/// The network of those pods of a story that do not use the host's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Cni,
    Docker,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Cni { "CNI" } else { "Docker's" })
    }
}

/// Exchanges the engine for each of the next engines, one after the other.
async fn exchanged(world: &World, story: &str, way: Way) -> Outcome {
    let chain = programs::chain(world)?;
    let engine = Engine::of(world.clone());
    begin(world, &engine, &chain[0], way.flags()).await?;
    let mut stage = match way.network {
        Network::Cni => Stage::cni(world, story).await?,
        Network::Docker => Stage::docker(world, story).await?,
    };
    walk(&mut stage, way, &chain).await?;
    until_no_commands(&stage).await?;
    stage.leaves_nothing().await?;
    engine.control(&["back"]).await
}

/// Starts the engine with these programs and with new data, which has only the test image.
async fn begin(world: &World, engine: &Engine, programs: &Path, flags: &[&str]) -> Outcome {
    let image = saved_image(world, engine).await?;
    engine.control(&["stop"]).await?;
    engine.control(&["programs", &programs.display().to_string()]).await?;
    engine.control(&[&["aside"][..], flags].concat()).await?;
    import(world, engine, &image).await
}

async fn import(world: &World, engine: &Engine, image: &str) -> Outcome {
    let import = ["import", "-c", "CMD [\"sh\"]", "-c", "ENV PATH=/bin:/usr/bin:/sbin", image];
    engine.docker(&[&import[..], &[world.image.as_str()]].concat()).await.map(drop)
}

/// Writes the files of the test image to an archive, because the engine of these stories begins without images.
async fn saved_image(world: &World, engine: &Engine) -> Outcome<String> {
    let path = world.root.join("tmp/image.tar").display().to_string();
    let id = engine.docker(&["create", &world.image]).await?;
    engine.docker(&["export", "-o", &path, &id]).await?;
    engine.docker(&["rm", &id]).await?;
    Ok(path)
}

async fn walk(stage: &mut Stage, way: Way, chain: &[PathBuf]) -> Outcome {
    let maps_users = stage.world.has_oci_runtime && way.network == Network::Cni;
    let kinds = [Kind::Port, Kind::Ended, Kind::Host, Kind::Mapped];
    let kinds = &kinds[..if maps_users { 4 } else { 3 }];
    let number = if is_full_size() { 30 } else { 4 };
    let mut crew = Crew::start(stage, kinds, number).await?;
    crew.works(stage).await?;
    for next in &chain[1..] {
        let step = Step { way, from: version(&stage.engine).await? };
        let forwarded = Forwarded::open(stage, &crew.pods[0].sandbox).await?;
        let fates = step.take(stage, &crew, next).await?;
        if fates.pods[0] == Fate::Survives && way.beside == Beside::Nothing {
            forwarded.still_works().await?;
        }
        crew.renew(stage, &fates).await?;
        crew.works(stage).await?;
    }
    crew.end(stage).await
}

/// One exchange of the engine's programs.
struct Step {
    way: Way,
    /// The version of the engine before the exchange.
    from: String,
}

impl Step {
    async fn take(&self, stage: &mut Stage, crew: &Crew, next: &Path) -> Outcome<Fates> {
        let predicted = predicted(stage).await?;
        let mut watch = None;
        match self.way.beside {
            Beside::Nothing => {
                watch = Some(Watch::start(&stage.cri, crew).await?);
                self.exchange(&stage.engine, next).await?;
            }
            Beside::Restarts => {
                stage.cri = stage.bridge.restart().await?;
                self.exchange(&stage.engine, next).await?;
                stage.cri = stage.bridge.restart().await?;
            }
            Beside::Kills => self.cut_off(stage, next).await?,
        }
        until_ready(&stage.cri).await?;
        let fates = crew.fates(&stage.engine).await?;
        for (pod, fate) in crew.pods.iter().zip(&fates.pods) {
            let survives = *fate == Fate::Survives;
            let mut looks = soon();
            loop {
                let shown = Crew::shown(&stage.cri, pod).await?;
                if shown.is_ok() == survives {
                    break;
                }
                ensure!(looks.again().await, "{:?} {fate}, but {shown:?}", pod.kind);
            }
        }
        self.print(&version(&stage.engine).await?, &fates);
        let (lost, failures) = match watch {
            Some(watch) => watch.end().await?,
            None => Default::default(),
        };
        ensure_eq!(failures.len(), 0, "probes: {failures:?}");
        ensure!(fates.failed.is_empty(), "ended: {:?}", fates.failed);
        if fates.are_kept() {
            ensure!(lost.is_empty(), "dockbridge did not list {lost:?} all the time");
        }
        if self.way.beside != Beside::Kills && (fates.are_kept() || !self.way.live) {
            let ended = fates.pods.iter().filter(|fate| **fate != Fate::Survives).count();
            ensure_eq!(ended, predicted, "pods that end");
        }
        Ok(fates)
    }

    async fn exchange(&self, engine: &Engine, next: &Path) -> Outcome {
        engine.control(&["stop"]).await?;
        engine.control(&["programs", &next.display().to_string()]).await?;
        engine.control(&[&["start"][..], self.way.flags()].concat()).await
    }

    async fn cut_off(&self, stage: &mut Stage, next: &Path) -> Outcome {
        let mut random = seeded();
        let start = [&["start"][..], self.way.flags()].concat();
        stage.engine.control(&["kill"]).await?;
        stage.engine.control(&["programs", &next.display().to_string()]).await?;
        for round in 0..if is_full_size() { 10 } else { 3 } {
            let (engine, start) = (stage.engine.clone(), start.clone());
            // The result of this start is ignored, because the start fails if dockerd is killed before it is ready.
            let starting = tokio::spawn(async move { engine.control(&start).await });
            sleep(patient(Duration::from_millis(random.random_range(0..2_000)))).await;
            if round % 2 == 0 {
                stage.bridge.kill().await?;
            }
            stage.engine.control(&["kill"]).await?;
            drop(starting.await?);
            if round % 2 == 0 {
                stage.bridge.launch()?;
            }
        }
        stage.engine.control(&start).await?;
        stage.bridge.await_answer().await?;
        stage.cri = stage.bridge.cri().await?;
        Ok(())
    }

    fn print(&self, to: &str, fates: &Fates) {
        let Way { network, live, beside } = self.way;
        let live = if live { "on" } else { "off" };
        let beside = match beside {
            Beside::Nothing => "",
            Beside::Restarts => ", with dockbridge",
            Beside::Kills => ", cut off",
        };
        let (plain, pods) = (Fates::count(&fates.plain), Fates::count(&fates.pods));
        println!("| {} to {to}{beside} | {live} | {network} | {plain} | {pods} |", self.from);
    }
}

/// A port-forward connection that is opened before an exchange.
struct Forwarded {
    line: Line,
    _forward: Forward,
    _server: Server,
}

impl Forwarded {
    async fn open(stage: &Stage, sandbox: &str) -> Outcome<Self> {
        let server =
            Server::start(&stage.engine, Some(sandbox), "127.0.0.1:0", Manner::Echo).await?;
        let mut forward = Forward::to(&stage.cri, Route::Spdy, sandbox, &[server.port]).await?;
        let line = forward.connect(server.port).await?;
        Ok(Self { line, _forward: forward, _server: server })
    }

    async fn still_works(mut self) -> Outcome {
        let failed = |Failure(why)| Failure(format!("port-forward: {why}"));
        self.line.writer.send(b"still here").await.map_err(failed)?;
        self.line.reader.until("still here").await.map_err(failed).map(drop)
    }
}

/// Waits until dockbridge has no files about commands. After an outage of the engine, dockbridge keeps the files for
/// ten seconds or more, because the engine may still start the commands.
async fn until_no_commands(stage: &Stage) -> Outcome {
    let mut looks = soon();
    while !files_below(&stage.folders.state.join("execs")).is_empty() {
        ensure!(looks.again().await, "records of commands stay");
    }
    Ok(())
}

/// How many pods an upgrade will end, according to `dockbridge check --upgrade`.
async fn predicted(stage: &Stage) -> Outcome<usize> {
    let mut command = Command::new(program());
    command.args(["check", "--upgrade", "--json"]).args(stage.bridge.command());
    let output = command.stdin(Stdio::null()).output().await?;
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let ended = document["upgrade"]["recreated"].as_u64();
    let Some(ended) = ended else { fail!("no prediction: {document}") };
    Ok(usize::try_from(ended)?)
}

async fn version(engine: &Engine) -> Outcome<String> {
    engine.docker(&["version", "-f", "{{.Server.Version}}"]).await
}

/// How long dockbridge may take to show the state that the engine shows.
fn soon() -> Looks {
    Looks::every(Duration::from_millis(50))
}

/// How long a story in full size, with thirty pods and all engines, may take.
pub(crate) const FULL_SIZE_PATIENCE: Duration = Duration::from_secs(1200);
const LIVE_RESTORE: &str = "--live-restore";
