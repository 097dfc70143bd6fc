//! How much space images take. The engine measures it in the background, because this takes seconds on a
//! full node. Calls are answered from memory. The disk is read every few seconds: kubelet's eviction runs
//! every ten seconds and ignores figures that are not newer than those of its last run.

use std::{sync::Arc, time::Duration};

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
    model::{engine::EngineInfo, image::FilesystemUsage, time::Nanos},
    store::{handle::Store, snapshot::Snapshot},
};

/// The latest figures. Clones share the figures.
#[derive(Clone, Default)]
pub(super) struct UsageMonitor {
    image_bytes: Arc<watch::Sender<Option<u64>>>,
    /// Without the bytes of the images.
    disk: Arc<watch::Sender<Option<FilesystemUsage>>>,
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
            // Not the snapshot, which would keep all its records for as long as no image changes.
            let (images, described) = {
                let now = store.snapshot();
                (now.images().to_vec(), now.engine.clone())
            };
            match timeout(MEASURE_DEADLINE, engine.image_bytes()).await {
                Ok(Ok(bytes)) => {
                    self.image_bytes.send_replace(Some(bytes));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    // Waits until a new measurement would have a different result.
                    let is_other = |now: &Snapshot| {
                        now.images() != images.as_slice() || now.engine != described
                    };
                    until(store, |now| is_other(now).then_some(())).await;
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
            let disk = read_disk(&*engine_info(store).await).await;
            self.disk.send_replace(Some(disk));
            sleep(DISK_INTERVAL).await;
        }
    }

    /// The latest figures; an estimate from the sizes of the images until the first measurement.
    pub(super) async fn read(&self, store: &Store) -> Result<FilesystemUsage, Failure> {
        let deadline = Instant::now() + FIRST_TIMEOUT;
        let engine = store.wait(FIRST_TIMEOUT, |snapshot| snapshot.engine.clone()).await;
        let unknown = "docker has not answered yet: the image file system is unknown";
        let engine = engine.ok_or_else(|| Failure::new(Kind::Unavailable, unknown))?;
        let image_bytes = first(&self.image_bytes, deadline).await;
        let unread = || FilesystemUsage {
            mountpoint: engine.root_dir.clone(),
            ..FilesystemUsage::default()
        };
        let disk = first(&self.disk, deadline).await.unwrap_or_else(unread);
        let image_bytes = image_bytes.unwrap_or_else(|| estimate(&store.snapshot()));
        Ok(FilesystemUsage { image_bytes, ..disk })
    }
}

/// The latest value; waits for the first one.
async fn first<T: Clone>(latest: &watch::Sender<Option<T>>, deadline: Instant) -> Option<T> {
    let mut latest = latest.subscribe();
    let known = timeout_at(deadline, latest.wait_for(Option::is_some)).await.ok()?;
    known.ok().and_then(|known| known.clone())
}

/// Reads the file system. Hangs for as long as the file system does.
async fn read_disk(engine: &EngineInfo) -> FilesystemUsage {
    let mountpoint = storage::mountpoint(engine).await;
    let place = mountpoint.clone();
    let size = blocking(move || disk::size(&place).ok()).await;
    let inodes = size.and_then(disk::Size::used_inodes);
    let measured_at = Nanos(clock::nanos());
    FilesystemUsage { mountpoint, inodes, measured_at, image_bytes: 0 }
}

/// The engine's information about itself. Waits for the first answer.
async fn engine_info(store: &Store) -> Arc<EngineInfo> {
    until(store, |now| now.engine.clone()).await
}

/// Waits until `find` finds something in the store. Waits forever if the store has ended, because the process
/// then ends.
async fn until<T>(store: &Store, find: impl Fn(&Snapshot) -> Option<T>) -> T {
    match store.when(|now| find(now)).await {
        Some(found) => found,
        None => std::future::pending().await,
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
