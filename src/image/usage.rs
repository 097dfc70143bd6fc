//! How much space images take. The engine measures it in the background, because this takes seconds on a
//! full node. Calls are answered from memory. The disk is read every few seconds: kubelet's eviction runs
//! every ten seconds and ignores figures that are not newer than those of its last run.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::debug;

use crate::{
    concurrency::blocking::blocking,
    engine::{client::Engine, storage},
    error::{Failure, Kind},
    host::{clock, disk},
    model::{engine::EngineInfo, image::FilesystemUsage, record::ImageRecord, time::Nanos},
    store::{handle::Store, snapshot::Snapshot},
};

/// The latest figures. Clones share the figures.
#[derive(Clone, Default)]
pub(super) struct UsageMonitor {
    image_bytes: Arc<watch::Sender<Option<u64>>>,
    disk: Arc<watch::Sender<Option<Disk>>>,
}

/// The file system of images and layers.
#[derive(Clone)]
struct Disk {
    mountpoint: PathBuf,
    /// Inodes in use on the file system, by any program.
    inodes: Option<u64>,
    read_at: Nanos,
}

/// What the last measurement depended on.
struct Inputs {
    engine: Option<Arc<EngineInfo>>,
    images: Vec<Arc<ImageRecord>>,
}

impl UsageMonitor {
    /// Keeps all figures up to date; never returns. A disk that hangs delays no other measurement.
    pub(super) async fn run(self, engine: Engine, store: Store) {
        tokio::join!(self.measure(&engine, &store), self.read_disk(&store));
    }

    /// Measures at the start and after each change of the images.
    ///
    /// Changes that come close together are measured once. Measuring takes only a small part of the time,
    /// even with a slow engine.
    async fn measure(&self, engine: &Engine, store: &Store) {
        loop {
            engine_info(store).await;
            let began = Instant::now();
            let inputs = Inputs::now(store);
            match timeout(MEASURE_DEADLINE, engine.image_bytes()).await {
                Ok(Ok(bytes)) => {
                    self.image_bytes.send_replace(Some(bytes));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    inputs.changed(store).await;
                    sleep(DEBOUNCE).await;
                    sleep_until(began + pause).await;
                }
                Ok(Err(error)) => self.use_estimate(store, &error.to_string()).await,
                Err(late) => self.use_estimate(store, &late.to_string()).await,
            }
        }
    }

    /// Called after a failed measurement: callers get an estimate until the next measurement.
    async fn use_estimate(&self, store: &Store, error: &str) {
        debug!(error, "cannot measure the image store");
        self.image_bytes.send_if_modified(|latest| {
            let first = latest.is_none();
            latest.get_or_insert_with(|| estimate(&store.snapshot()));
            first
        });
        sleep(INTERVAL).await;
    }

    /// Reads the disk periodically. While a read hangs, the figures keep the time of the last read.
    async fn read_disk(&self, store: &Store) {
        loop {
            let disk = Disk::read(&*engine_info(store).await).await;
            self.disk.send_replace(Some(disk));
            sleep(DISK_INTERVAL).await;
        }
    }

    /// The latest figures; an estimate from the sizes of the images until the first measurement.
    pub(super) async fn read(&self, store: &Store) -> Result<FilesystemUsage, Failure> {
        let deadline = Instant::now() + FIRST_TIMEOUT;
        let engine = store.wait(FIRST_TIMEOUT, |snapshot| snapshot.engine.clone()).await;
        let engine = engine.ok_or_else(|| {
            Failure::new(
                Kind::Unavailable,
                "docker has not answered yet: the image file system is unknown",
            )
        })?;
        let image_bytes = first(&self.image_bytes, deadline).await;
        let unread =
            || Disk { mountpoint: engine.root_dir.clone(), inodes: None, read_at: Nanos::UNSET };
        let disk = first(&self.disk, deadline).await.unwrap_or_else(unread);
        Ok(FilesystemUsage {
            mountpoint: disk.mountpoint,
            image_bytes: image_bytes.unwrap_or_else(|| estimate(&store.snapshot())),
            inodes: disk.inodes,
            measured_at: disk.read_at,
        })
    }
}

/// The latest value; waits for the first one.
async fn first<T: Clone>(latest: &watch::Sender<Option<T>>, deadline: Instant) -> Option<T> {
    let mut latest = latest.subscribe();
    let known = timeout_at(deadline, latest.wait_for(Option::is_some)).await.ok()?;
    known.ok().and_then(|known| known.clone())
}

impl Disk {
    /// Reads the file system. Hangs for as long as the file system does.
    async fn read(engine: &EngineInfo) -> Self {
        let mountpoint = storage::mountpoint(engine).await;
        let place = mountpoint.clone();
        let size = blocking(move || disk::size(&place).ok()).await;
        let inodes = size.and_then(disk::Size::used_inodes);
        Self { mountpoint, inodes, read_at: Nanos(clock::nanos()) }
    }
}

impl Inputs {
    fn now(store: &Store) -> Self {
        let now = store.snapshot();
        Self { engine: now.engine.clone(), images: now.images().to_vec() }
    }

    /// Resolves when a new measurement would have a different result.
    async fn changed(&self, store: &Store) {
        until(store, |now| now.images() != self.images || now.engine != self.engine).await;
    }
}

/// The engine's information about itself. Waits for the first answer.
async fn engine_info(store: &Store) -> Arc<EngineInfo> {
    loop {
        if let Some(engine) = store.wait(RECHECK, |snapshot| snapshot.engine.clone()).await {
            return engine;
        }
        // A closed store returns at once, so this waits.
        sleep(DEBOUNCE).await;
    }
}

/// Resolves when the condition holds in the store.
async fn until(store: &Store, holds: impl Fn(&Snapshot) -> bool) {
    while store.wait(RECHECK, |snapshot| holds(snapshot).then_some(())).await.is_none() {
        // A closed store returns at once, so this waits.
        sleep(DEBOUNCE).await;
    }
}

/// Counts shared layers more than once. The result is too large but never 0: kubelet would take 0 for a
/// broken file system.
fn estimate(snapshot: &Snapshot) -> u64 {
    snapshot.images().iter().map(|image| image.size).fold(0, u64::saturating_add)
}

/// How long the first answer may wait for the first measurement.
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one measurement may take.
const MEASURE_DEADLINE: Duration = Duration::from_secs(120);
/// Time between two reads of the disk: half of kubelet's eviction interval.
const DISK_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two measurements, also after a failed one.
const INTERVAL: Duration = Duration::from_secs(30);
/// At most this part of the time (one n-th) is spent on measuring.
const SHARE: u32 = 10;
/// How long after the first change the measurement starts, so that it includes the changes that follow.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// The longest single wait for the store.
const RECHECK: Duration = Duration::from_secs(3600);
