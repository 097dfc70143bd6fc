//! The chaos stories: many things happen at the same time and at random. CRI clients create and remove pods,
//! dockbridge is killed, the engine is frozen, killed and restarted, inspects are delayed, CNI plugins are killed, and
//! the disk of the state directory is filled. dockbridge must not contradict its earlier answers, and at the end no
//! process of an ExecSync command and no file or network of a pod may be left.

pub(crate) mod nri;
pub(crate) mod size;

mod active_faults;
mod caller;
mod fault;
mod nri_order;
mod recorded;

use std::{fs, path::Path, sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::{
    process::Command,
    runtime::Handle,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use self::{
    caller::{Caller, Pod},
    fault::{Disturber, Event},
    nri::Plugins,
    recorded::Recorded,
    size::Size,
};
use crate::support::{
    cri_log::CriLog,
    failure::{Failure, Outcome, ensure, ensure_eq, fail},
    http,
    leftovers::files_below,
    patience::{Looks, patient},
    random::seeded,
    slow_proxy::SlowProxy,
    stage::Stage,
    world::World,
};

/// In the chaos, pods that were ready stay ready unless a client or the engine ends them, removed pods stay removed,
/// and all pods can be removed at the end.
pub(crate) async fn loses_nothing(world: World) -> Outcome {
    survive(world, Size::stated(), false).await
}

/// Like [`loses_nothing`], with NRI plugins. Each plugin gets its NRI events in an allowed order, although plugins
/// fail and are killed.
pub(crate) async fn tells_plugins(world: World) -> Outcome {
    survive(world, Size::with_plugins(), true).await
}

async fn survive(world: World, size: Size, with_plugins: bool) -> Outcome {
    let mut random = seeded();
    println!("  {size:?}");
    // Pods have the same names in both stories, so their logs need different directories.
    let name = if with_plugins { "chaos-nri" } else { "chaos" };
    let root = world.root.join("tmp").join(name);
    let state = root.join("state");
    fs::create_dir_all(&state)?;
    mount(&["-t", "tmpfs", "-o", STATE_DISK, "chaos"], &state).await?;
    let proxy = SlowProxy::start(&world.root.join(format!("tmp/{name}.sock")), &world.docker)?;
    let mut chaos = Chaos::new(size);
    let mut stage = if with_plugins {
        let notes = Plugins::install(&root)?;
        let (stage, socket) =
            Stage::with_plugins_behind(&world, name, proxy.socket(), "1s").await?;
        chaos.plugins = Some(Plugins::start(&socket, &notes, &chaos.told, &mut random));
        stage
    } else {
        Stage::behind(&world, name, proxy.socket()).await?
    };
    stage.engine.control(&["restart", LIVE_RESTORE]).await?;
    let outcome = chaos.run(&mut stage, &proxy, &mut random).await;
    stage.engine.control(&["restart"]).await?;
    outcome?;
    let (state, log) = (stage.folders.state.clone(), stage.bridge.log().to_owned());
    stage.leaves_nothing_but(is_group).await?;
    let panics = panics(&log)?;
    ensure!(panics.is_empty(), "it panicked:\n  {}", panics.join("\n  "));
    ensure!(Command::new("umount").arg(&state).status().await?.success(), "the state is in use");
    Ok(())
}

struct Chaos {
    size: Size,
    told: Arc<Recorded>,
    plugins: Option<Plugins>,
    /// This token is cancelled when the clients should finish.
    enough: CancellationToken,
    /// The faults with their times, for the reader of a failure.
    diary: String,
    begun: Instant,
}

impl Chaos {
    fn new(size: Size) -> Self {
        let (told, enough) = (Arc::default(), CancellationToken::new());
        let (plugins, diary) = (None, String::new());
        Self { size, told, plugins, enough, diary, begun: Instant::now() }
    }

    async fn run(mut self, stage: &mut Stage, proxy: &SlowProxy, random: &mut StdRng) -> Outcome {
        let mut callers = JoinSet::new();
        for number in 0..self.size.callers {
            let random = StdRng::seed_from_u64(random.random());
            let caller = Caller::new(stage, Arc::clone(&self.told), (number, random));
            let (enough, runtime) = (self.enough.clone(), Handle::current());
            // The compiler cannot prove that the client's calls, which are closures over references, may move to
            // another thread, so the client has its own thread.
            callers.spawn_blocking(move || runtime.block_on(caller.live(enough)));
        }
        let (socket, told) = (stage.bridge.socket().to_owned(), Arc::clone(&self.told));
        let watching = tokio::spawn(async move { told.watch(&socket).await });
        let done = self.disturb(stage, proxy, random).await;
        self.enough.cancel();
        let pods: Vec<Pod> = callers.join_all().await.into_iter().flatten().collect();
        stage.cri = stage.bridge.cri().await?;
        watching.abort();
        println!("  {}; {} pods at the end", self.told.summary(), pods.len());
        let ended = async {
            done?;
            if let Some(plugins) = &self.plugins {
                plugins.agree(&stage.cri).await?;
            }
            // The commands are checked before containers are stopped, because a container's commands end with the
            // container.
            self.die_with_commands(stage, &pods).await?;
            Self::no_command_is_left(stage).await?;
            self.works(stage, &pods).await?;
            self.all_can_go(stage).await?;
            match &self.plugins {
                Some(plugins) => plugins.know_nothing().await,
                None => Ok(()),
            }
        };
        let mut faults = self.told.broken();
        faults.extend(ended.await.err().map(|Failure(why)| why));
        if !faults.is_empty() {
            fail!("{}\n{}", faults.join("\n"), self.diary);
        }
        Ok(())
    }

    /// Causes the planned faults one after the other, and sometimes kills dockbridge during a fault.
    async fn disturb(
        &mut self,
        stage: &mut Stage,
        proxy: &SlowProxy,
        random: &mut StdRng,
    ) -> Outcome {
        let mut disturber = Disturber::new(stage, proxy, Arc::clone(&self.told));
        let mut plan = Event::plan(self.size);
        plan.shuffle(random);
        for event in plan {
            sleep(patient(Duration::from_millis(random.random_range(0..LONGEST_PAUSE)))).await;
            let at = self.begun.elapsed().as_secs_f32();
            self.diary += &format!("  {at:.1} s: {event:?}");
            let what = disturber.disturb(event, random).await?;
            self.diary +=
                &format!(" {what} - over at {:.1} s\n", self.begun.elapsed().as_secs_f32());
        }
        // All faults have ended. After the grace period, a fault no longer excuses a failed call.
        sleep(patient(active_faults::GRACE)).await;
        Ok(())
    }

    /// Checks the clients' pods and containers that must still run: pods with a server answer, commands run, and
    /// CRI logs of stdout are equal to the engine's logs.
    async fn works(&self, stage: &Stage, pods: &[Pod]) -> Outcome {
        let (mut asked, mut compared) = (0, 0);
        for pod in pods {
            if self.told.is_up(&pod.id)
                && let Some(address) = self.address(stage, pod).await?
            {
                http::get(&address).await?;
                asked += 1;
            }
            for one in pod.containers.iter().filter(|one| self.told.is_up(&one.id)) {
                let answer = stage.cri.exec_sync(&one.id, &["echo", "still"], 10).await?;
                ensure_eq!(answer.stdout, b"still\n");
                stage.cri.stop_container(&one.id, 5).await?;
                let ours = CriLog::of(&pod.config, &one.config).text("stdout")?;
                let engines = stage.engine.docker(&["logs", &one.id]).await?;
                ensure_eq!(first_difference(ours.trim_end(), &engines), None, "{}", one.id);
                compared += 1;
            }
        }
        println!("  {asked} pods answered, {compared} logs compared");
        Ok(())
    }

    /// The address at which a pod listens, if one of its containers listens.
    async fn address(&self, stage: &Stage, pod: &Pod) -> Outcome<Option<String>> {
        let serves = pod.containers.iter().any(|one| one.serves && self.told.is_up(&one.id));
        let ip = stage.cri.sandbox(&pod.id).await?.network.unwrap_or_default().ip;
        ensure!(!serves || !ip.is_empty(), "pod {} has no address", pod.id);
        Ok(serves.then(|| format!("{ip}:{}", caller::PORT)))
    }

    /// Removes all pods, also pods that no client knows: a call that failed may still have taken effect in the engine.
    async fn all_can_go(&self, stage: &Stage) -> Outcome {
        let mut left = Vec::new();
        let mut looks = Looks::every(Duration::from_millis(100));
        while looks.again().await {
            stage.cri.clear().await?;
            left = stage.engine.containers().await?;
            if left.is_empty() {
                return forget_image(stage).await;
            }
        }
        fail!("the engine still has {left:?}");
    }

    /// Kills and restarts dockbridge once more, while commands run in the clients' containers.
    async fn die_with_commands(&self, stage: &mut Stage, pods: &[Pod]) -> Outcome {
        let containers = pods.iter().flat_map(|pod| &pod.containers);
        let mut commands = JoinSet::new();
        for one in containers.filter(|one| self.told.is_up(&one.id)) {
            let (cri, id) = (stage.bridge.cri().await?, one.id.clone());
            commands.spawn(async move { cri.exec_sync(&id, &caller::OUTLASTING, 600).await });
        }
        let mut looks = Looks::every(Duration::from_millis(100));
        while outlasting().len() < commands.len() && looks.again().await {}
        ensure!(commands.is_empty() || !outlasting().is_empty(), "no command began");
        stage.cri = stage.bridge.crash().await?;
        Ok(())
    }

    /// Waits until no process of [`caller::OUTLASTING`] and no record of a command is left. A restarted dockbridge
    /// searches at least twice, ten seconds apart, for the commands of the killed dockbridge.
    async fn no_command_is_left(stage: &Stage) -> Outcome {
        let mut looks = Looks::every(Duration::from_millis(200));
        let mut left = Vec::new();
        while looks.again().await {
            left = files_below(&stage.folders.state.join("execs"));
            left.extend(outlasting());
            if left.is_empty() {
                return Ok(());
            }
        }
        fail!("commands are still to be ended: {left:?}");
    }
}

/// The processes of the command [`caller::OUTLASTING`], which run for almost a day unless they are killed.
fn outlasting() -> Vec<String> {
    processes_with(caller::DAY).into_iter().map(|pid| format!("process {pid}")).collect()
}

/// The processes that have the argument `argument`.
fn processes_with(argument: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let found = entries.flatten().filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    });
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Removes only the name with which clients pulled the image, because other stories need the image.
async fn forget_image(stage: &Stage) -> Outcome {
    let name = format!("{}/busybox:1", stage.world.registry);
    if stage.cri.image(&name).await?.is_some() {
        stage.engine.docker(&["rmi", &name]).await?;
    }
    Ok(())
}

/// The number of the first line that differs between two logs, with both lines.
fn first_difference(ours: &str, engines: &str) -> Option<(usize, String, String)> {
    let (mut one, mut other) = (ours.lines(), engines.lines());
    for number in 1.. {
        match (one.next(), other.next()) {
            (None, None) => return None,
            (ours, engines) if ours == engines => {}
            (ours, engines) => {
                let text = |line: Option<&str>| line.unwrap_or("(end)").to_owned();
                return Some((number, text(ours), text(engines)));
            }
        }
    }
    None
}

/// Whether a leftover is a cgroup. An engine that dies while it starts a container might leave the container's cgroup.
fn is_group(left: &str) -> bool {
    left.starts_with("cgroup ")
}

/// The lines of dockbridge's log that report a panic.
fn panics(log: &Path) -> Outcome<Vec<String>> {
    let text = fs::read(log)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect())
}

async fn mount(arguments: &[&str], place: &Path) -> Outcome {
    let status = Command::new("mount").args(arguments).arg(place).status().await?;
    ensure!(status.success(), "mount {arguments:?} {}: {status}", place.display());
    Ok(())
}

const LIVE_RESTORE: &str = "--live-restore";
/// The size of the state directory's own small disk, which a fault fills.
const STATE_DISK: &str = "size=4m";
/// Longest pause before a fault, in milliseconds (longer on slow machines).
const LONGEST_PAUSE: u64 = 1200;
