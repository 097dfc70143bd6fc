//! Tests that kubelet can rotate the log of a busy container, also while dockbridge is killed repeatedly, and
//! what happens to the log if another program truncates the engine's file.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use rand::Rng;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tonic::Code;

use super::{Scene, count, counting, until_exited};
use crate::admin::{ask, figure};
use crate::support::{
    cri::Cri,
    cri_log::CriLog,
    engine::Engine,
    failure::{Failure, Outcome, ensure, ensure_eq, fail},
    patience::{Looks, is_slow},
    random::seeded,
    stage::Stage,
    stated::is_full_size,
    world::World,
};

/// After ReopenContainerLog, the log of a busy container continues in a new file, which exists when the call returns.
/// dockbridge refuses ReopenContainerLog for a container that does not run, or does not exist, and creates no file.
pub(crate) async fn by_the_kubelet(world: World) -> Outcome {
    let scene = Scene::on(Stage::docker(&world, "by_the_kubelet").await?).await?;
    let cri = &scene.stage.cri;
    let (id, mut log) = scene.add("main", &counting(100, 2000), false).await?;
    for round in 1..=10_usize {
        log.rotate(cri, &id).await??;
        ensure!(log.path().is_file(), "no file after rotation {round}");
        ensure_eq!(log.files()?.len(), round + 1);
        sleep(ROTATE_EVERY).await;
    }
    scene.tell_to_end(&id).await?;
    until_exited(cri, &id).await?;
    let lines = count(&log)?;
    println!("  {lines} lines in {} files", log.files()?.len());

    let before = log.length()?;
    let refused = log.rotate(cri, &id).await?.err().map(|refused| refused.code);
    ensure_eq!(refused, Some(Code::FailedPrecondition));
    fs::rename(log.path(), log.path().with_extension("aside"))?;
    let refused = cri.reopen_log(&id).await.err().map(|refused| refused.code);
    ensure_eq!(refused, Some(Code::FailedPrecondition));
    ensure!(!log.path().exists(), "a file was made for a container that has ended");
    ensure_eq!(log.length()?, before);
    let refused = cri.reopen_log(&"0".repeat(64)).await.err().map(|refused| refused.code);
    ensure_eq!(refused, Some(Code::NotFound));
    scene.clear().await
}

/// With up to 100,000 lines and ten rotations a second, and with four to twenty kills of dockbridge, every line is
/// written once, in order and complete. The whole log is written before dockbridge shows the container's exit.
pub(crate) async fn under_fire(world: World) -> Outcome {
    let mut scene = Scene::on(Stage::docker(&world, "under_fire").await?).await?;
    let (begun, mut random) = (Instant::now(), seeded());
    let (id, log) = scene.add("main", &counting(5_000, 100_000), false).await?;
    let socket = scene.stage.bridge.socket().to_owned();
    let mut kubelet = Kubelet::start(socket, id.clone(), log.clone());
    let mut kills = 0;
    let (fewest, most) =
        if is_full_size() { (20, 20) } else { (4, if is_slow() { 4 } else { 20 }) };
    while kills < fewest || (kills < most && begun.elapsed() < ENOUGH) {
        kills += 1;
        kubelet.rotates(random.random_range(5..15)).await?;
        sleep(Duration::from_micros(random.random_range(0..100_000))).await;
        keeps_up(&scene.stage.engine, &id, &log).await?;
        scene.stage.cri = scene.stage.bridge.crash().await?;
    }
    kubelet.rotates(1).await?;
    keeps_up(&scene.stage.engine, &id, &log).await?;
    scene.tell_to_end(&id).await?;
    let wrote = begun.elapsed();
    until_exited(&scene.stage.cri, &id).await?;
    let (log, told) = kubelet.end().await?;
    let (length, shown) = (log.length()?, begun.elapsed());
    let lines = count(&log)?;
    ensure_eq!(log.length()?, length, "(bytes, now and when the end was shown)");
    println!(
        "  {kills} kills, {lines} lines in {} files, {} MB, written in {wrote:.1?}, end shown {:.1?} later; \
         reopened: {told:?}",
        log.files()?.len(),
        length / 1_000_000,
        shown - wrote,
    );
    scene.clear().await
}

/// The engine's log file is truncated while dockbridge is frozen, and grows to more than its old size. dockbridge
/// writes all lines after the truncation, and counts a loss in `dockbridge_log_lost_total`.
pub(crate) async fn truncated_by_somebody(world: World) -> Outcome {
    let scene = Scene::on(Stage::docker(&world, "truncated_by_somebody").await?).await?;
    let Stage { bridge, cri, engine, .. } = &scene.stage;
    let line = "seq 1 9; while [ ! -e /more ]; do usleep 10000; done; seq 101 500";
    let (id, log) = scene.add("main", line, false).await?;
    let before = numbered(1..=9);
    log.until(&before).await?;
    let source = engine.docker(&["inspect", "--format", "{{.LogPath}}", &id]).await?;

    bridge.freeze()?;
    fs::File::options().write(true).open(&source)?.set_len(0)?;
    engine.let_go(&id, "/more").await?;
    engine.docker(&["wait", &id]).await?;
    ensure!(fs::read_to_string(&source)?.contains(r#""500\n""#), "the engine's file is not whole");
    bridge.thaw()?;
    until_exited(cri, &id).await?;
    ensure_eq!(log.text("stdout")?, before + &numbered(101..=500));
    let metrics = ask(&bridge.socket().with_file_name("admin.sock"), "/metrics").await?;
    ensure_eq!(figure(&metrics, r#"dockbridge_log_lost_total{kind="files"}"#), 1);
    scene.clear().await
}

fn numbered(range: std::ops::RangeInclusive<u32>) -> String {
    range.map(|number| format!("{number}\n")).collect()
}

/// Waits until dockbridge has so few lines left to write that the engine keeps them all while dockbridge is down. On a
/// busy machine, a debug build of dockbridge may never catch up with a container that writes all the time. If
/// dockbridge does not catch up soon, the container pauses until all its lines are in the log.
async fn keeps_up(engine: &Engine, id: &str, log: &CriLog) -> Outcome {
    let pause = Duration::from_millis(5);
    let mut looks = Looks::within(Duration::from_secs(2), pause);
    while looks.again().await {
        let behind = log.latest()?.map(|time| Timestamp::now().duration_since(time));
        if behind.is_some_and(|behind| behind.as_millis() < 1000) {
            return Ok(());
        }
    }
    engine.inside(id, "touch /hold").await?;
    let mut looks = Looks::every(Duration::from_millis(100));
    while looks.again().await {
        let last = engine.try_docker(&["logs", "--timestamps", "--tail", "1", id]).await?;
        // The container's last line may be on stdout or on stderr.
        let last = String::from_utf8_lossy(&[last.stdout, last.stderr].concat()).into_owned();
        let last: Option<Timestamp> = last.split(' ').next().and_then(|time| time.parse().ok());
        if last.is_some() && log.latest()? >= last {
            engine.inside(id, "rm /hold").await?;
            return Ok(());
        }
    }
    fail!("the log falls behind: its last line is of {:?}", log.latest()?);
}

/// Rotates a log repeatedly in the background, like a kubelet.
struct Kubelet {
    enough: Arc<AtomicBool>,
    rotated: watch::Receiver<u32>,
    task: tokio::task::JoinHandle<Outcome<(CriLog, Told)>>,
}

/// How often ReopenContainerLog returned each status code.
type Told = BTreeMap<String, u32>;

impl Kubelet {
    fn start(socket: PathBuf, id: String, log: CriLog) -> Self {
        let (sender, rotated) = watch::channel(0);
        let enough = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(rotate(socket, id, log, (sender, Arc::clone(&enough))));
        Self { enough, rotated, task }
    }

    /// Waits until the log was rotated this many more times.
    async fn rotates(&mut self, times: u32) -> Outcome {
        let wanted = *self.rotated.borrow() + times;
        // If the task has failed, this wait ends, and `end` returns the reason.
        drop(self.rotated.wait_for(|count| *count >= wanted).await);
        Ok(())
    }

    async fn end(self) -> Outcome<(CriLog, Told)> {
        self.enough.store(true, Ordering::SeqCst);
        self.task.await?
    }
}

async fn rotate(
    socket: PathBuf,
    id: String,
    mut log: CriLog,
    (rotated, enough): (watch::Sender<u32>, Arc<AtomicBool>),
) -> Outcome<(CriLog, Told)> {
    let mut told = Told::new();
    let mut ticks = interval(ROTATE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut cri = None;
    while !enough.load(Ordering::SeqCst) {
        ticks.tick().await;
        if cri.is_none() {
            cri = Cri::connect(&socket).await.ok();
        }
        let Some(open) = &cri else { continue };
        let answer =
            log.rotate(open, &id).await.map_err(|Failure(e)| Failure(format!("rotate: {e}")))?;
        let code = answer.as_ref().map_or_else(|refused| refused.code, |()| Code::Ok);
        *told.entry(format!("{code:?}")).or_default() += 1;
        if code == Code::Ok {
            rotated.send_modify(|count| *count += 1);
        } else {
            cri = None;
        }
    }
    Ok((log, told))
}

const ROTATE_EVERY: Duration = Duration::from_millis(100);
/// After this time, the smallest number of kills is enough. On an idle machine, twenty kills take half of this time.
/// On a busy machine, dockbridge needs much longer after each kill to write what the container logged.
const ENOUGH: Duration = Duration::from_secs(60);
