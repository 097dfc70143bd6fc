//! The faults of the chaos stories.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rand::{Rng, rngs::StdRng};
use tokio::time::{Instant, sleep};

use super::{
    LIVE_RESTORE,
    recorded::{DEATHS, Recorded},
    size::Size,
};
use crate::{
    restarts,
    support::{
        failure::Outcome,
        patience::patient,
        process::Stopped,
        slow_proxy::{SlowAnswers, SlowProxy},
        stage::Stage,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// dockbridge is killed and started again.
    Kill,
    /// The engine is frozen for a while.
    FreezeEngine,
    /// The engine is killed and started again.
    KillEngine,
    /// The engine is stopped and started again.
    RestartEngine,
    /// For a while, inspects of containers are answered late, only after the fault, or with failures.
    HoldInspects,
    /// For a while, CNI plugins are killed: those called with ADD the whole time, the others during the first half.
    KillPlugins,
    /// The state directory's disk is full for a while.
    FillDisk,
}

impl Event {
    /// Lists the planned faults of a story. The caller shuffles the list.
    pub(super) fn plan(size: Size) -> Vec<Self> {
        const ENGINE: [Event; 4] =
            [Event::FreezeEngine, Event::KillEngine, Event::RestartEngine, Event::HoldInspects];
        let count = |number: u32| usize::try_from(number).unwrap_or(0);
        let kills = std::iter::repeat_n(Self::Kill, count(size.kills));
        let faults = ENGINE.into_iter().cycle().take(count(size.faults));
        let others = [Self::KillPlugins, Self::FillDisk].into_iter().cycle();
        let others = others.take(count(size.faults.div_ceil(4) * 2));
        kills.chain(faults).chain(others).collect()
    }
}

/// Causes the faults.
pub(super) struct Disturber<'a> {
    stage: &'a mut Stage,
    proxy: &'a SlowProxy,
    told: Arc<Recorded>,
    /// Whether the engine has live-restore, so that containers survive its stop.
    live: bool,
}

impl<'a> Disturber<'a> {
    /// For a story whose engine was started with live-restore.
    pub(super) const fn new(
        stage: &'a mut Stage,
        proxy: &'a SlowProxy,
        told: Arc<Recorded>,
    ) -> Self {
        Self { stage, proxy, told, live: true }
    }

    /// Causes a fault and ends it, and returns details, which are empty for `Kill`.
    pub(super) async fn disturb(&mut self, event: Event, random: &mut StdRng) -> Outcome<String> {
        self.told.weather.disturb();
        let with_kill = random.random_range(0..3) == 0;
        let rest = patient(Duration::from_millis(random.random_range(100..4000)));
        let words = match event {
            Event::Kill => self.kill().await.map(|()| String::new())?,
            Event::FreezeEngine => self.freeze(rest, with_kill).await?,
            Event::KillEngine | Event::RestartEngine => {
                let lives = random.random_range(0..4) > 0;
                self.restart_engine(event, (rest, lives), with_kill).await?
            }
            Event::HoldInspects => self.hold_inspects(rest, with_kill, random).await?,
            Event::KillPlugins => self.kill_plugins(rest).await,
            Event::FillDisk => self.fill_disk(rest, with_kill).await?,
        };
        self.stage.bridge.await_answer().await?;
        restarts::until_ready(&self.stage.bridge.cri().await?).await?;
        self.told.weather.calm();
        Ok(words)
    }

    async fn kill(&mut self) -> Outcome {
        self.told.count("kills");
        self.stage.bridge.kill().await?;
        self.stage.bridge.launch()
    }

    /// Waits for the time `rest`. With `with_kill`, kills and restarts dockbridge after half of this time.
    async fn meanwhile(&mut self, rest: Duration, with_kill: bool) -> Outcome {
        sleep(rest / 2).await;
        if with_kill {
            self.kill().await?;
        }
        sleep(rest / 2).await;
        Ok(())
    }

    async fn freeze(&mut self, rest: Duration, with_kill: bool) -> Outcome<String> {
        let _stopped = Stopped::stop(Pid::from_raw(self.stage.engine.pid()?))?;
        self.meanwhile(rest, with_kill).await?;
        Ok(format!("for {rest:.1?}, dockbridge killed: {with_kill}"))
    }

    async fn restart_engine(
        &mut self,
        how: Event,
        (rest, lives): (Duration, bool),
        with_kill: bool,
    ) -> Outcome<String> {
        // A killed engine does not stop containers, but without live-restore, its next start stops them.
        let survive = lives && (self.live || how == Event::KillEngine);
        if !survive {
            self.told.all_may_end(true);
        }
        self.told.count(DEATHS);
        // With live-restore, an engine that is stopped while it has no running container ends the containers that it
        // is starting, so one more container runs during the restart.
        let run = ["run", "-d", "--network", "none", &self.stage.world.image, "sleep", "100000"];
        let listed = match how {
            Event::RestartEngine if survive => Some(self.stage.engine.docker(&run).await?),
            _ => None,
        };
        let word = if how == Event::KillEngine { "kill" } else { "stop" };
        self.stage.engine.control(&[word]).await?;
        self.meanwhile(rest, with_kill).await?;
        let flags: &[&str] = if lives { &["start", LIVE_RESTORE] } else { &["start"] };
        self.stage.engine.control(flags).await?;
        self.live = lives;
        if !survive {
            self.told.all_may_end(false);
        }
        if let Some(id) = listed {
            self.stage.engine.docker(&["rm", "-f", &id]).await?;
        }
        Ok(format!("away for {rest:.1?}, pods survive: {survive}, dockbridge killed: {with_kill}"))
    }

    async fn hold_inspects(
        &mut self,
        rest: Duration,
        with_kill: bool,
        random: &mut StdRng,
    ) -> Outcome<String> {
        let mut slow = SlowAnswers::default();
        for id in self.stage.engine.containers().await? {
            match random.random_range(0..10) {
                0 => drop(slow.hanging.insert(id)),
                1 => drop(slow.failing.insert(id)),
                _ => {
                    let delay = Duration::from_millis(random.random_range(0..3000));
                    slow.delays.insert(id, patient(delay));
                }
            }
        }
        let words = format!("of {}, dockbridge killed: {with_kill}", words(&slow));
        self.proxy.slow(slow);
        let waited = self.meanwhile(rest, with_kill).await;
        self.proxy.quick();
        waited?;
        Ok(words)
    }

    async fn kill_plugins(&mut self, rest: Duration) -> String {
        let (begun, folder) = (Instant::now(), self.stage.world.cni_bin.clone());
        let mut killed = 0;
        while begun.elapsed() < rest {
            let all = begun.elapsed() < rest / 2;
            killed += running_from(&folder)
                .into_iter()
                .filter(|pid| (all || connects(*pid)) && kill(*pid, Signal::SIGKILL).is_ok())
                .count();
            sleep(Duration::from_millis(5)).await;
        }
        format!("{killed} of them")
    }

    async fn fill_disk(&mut self, rest: Duration, with_kill: bool) -> Outcome<String> {
        let filler = self.stage.folders.state.join("filler");
        let written = fill(&filler)?;
        let waited = self.meanwhile(rest, with_kill).await;
        fs::remove_file(&filler)?;
        waited?;
        Ok(format!("with {written} bytes, dockbridge killed: {with_kill}"))
    }
}

fn words(slow: &SlowAnswers) -> String {
    let count = |ids: &BTreeSet<String>| ids.len();
    let late: &BTreeMap<_, _> = &slow.delays;
    format!(
        "{} late, {} hanging, {} failing",
        late.len(),
        count(&slow.hanging),
        count(&slow.failing)
    )
}

/// The processes whose program is in the directory `folder`.
fn running_from(folder: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let program = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    pids.filter(|pid| program(pid).starts_with(folder)).map(Pid::from_raw).collect()
}

/// Whether the process is a CNI plugin that was called to connect a pod.
fn connects(pid: Pid) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == b"CNI_COMMAND=ADD")
}

/// Writes until the disk is full.
fn fill(path: &PathBuf) -> Outcome<usize> {
    let mut file = fs::File::create(path)?;
    let mut written = 0;
    for size in [64 << 10, 4096] {
        while let Ok(more) = file.write(&vec![0; size]) {
            written += more;
        }
    }
    Ok(written)
}
