//! Measures how much space images take, in the background, because that takes seconds on a full node.
//! dockbridge reads the disk every few seconds: kubelet's eviction runs every ten seconds and ignores a
//! measurement that is not newer than at its last run.

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

/// The latest figures about the image store, shared by all clones of this value.
#[derive(Clone, Default)]
pub(super) struct UsageMonitor {
    image_bytes: Arc<watch::Sender<Option<u64>>>,
    /// The usage of the disk; its `image_bytes` is 0.
    disk: Arc<watch::Sender<Option<FilesystemUsage>>>,
}

impl UsageMonitor {
    /// Repeats the measurements of images and, independently, of the disk; never returns.
    pub(super) async fn run(self, engine: Engine, store: Store) {
        tokio::join!(self.measure(&engine, &store), self.read_disk(&store));
    }

    /// Measures the images' size at the start, after changes and after failures, at most once in [`INTERVAL`].
    async fn measure(&self, engine: &Engine, store: &Store) {
        loop {
            engine_info(store).await;
            let began = Instant::now();
            // Copies only the images and the engine from the snapshot: the snapshot would keep all its
            // records in memory during the wait below.
            let (images, described) = {
                let now = store.snapshot();
                (now.images().to_vec(), now.engine.clone())
            };
            match timeout(MEASURE_DEADLINE, engine.image_bytes()).await {
                Ok(Ok(bytes)) => {
                    self.image_bytes.send_replace(Some(bytes));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    // Waits until a new measurement could have a different result.
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

    async fn use_estimate(&self, store: &Store, error: &str) {
        debug!(error, "cannot measure the image store; using the last measurement or an estimate");
        self.image_bytes.send_if_modified(|latest| {
            let first = latest.is_none();
            latest.get_or_insert_with(|| estimate(&store.snapshot()));
            first
        });
        sleep(INTERVAL).await;
    }

    /// Reads the disk periodically. While a read hangs, the usage keeps the time of the last read.
    async fn read_disk(&self, store: &Store) {
        loop {
            let disk = read_disk(&*engine_info(store).await).await;
            self.disk.send_replace(Some(disk));
            sleep(DISK_INTERVAL).await;
        }
    }

    /// The latest usage. Until a measurement succeeds, the images' size is an estimate.
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

/// The latest measurement. Waits until `deadline` for the first measurement.
async fn first<T: Clone>(latest: &watch::Sender<Option<T>>, deadline: Instant) -> Option<T> {
    let mut latest = latest.subscribe();
    let known = timeout_at(deadline, latest.wait_for(Option::is_some)).await.ok()?;
    known.ok().and_then(|known| known.clone())
}

/// Reads how many inodes the file system of the images uses. Hangs as long as the file system does not answer.
async fn read_disk(engine: &EngineInfo) -> FilesystemUsage {
    let mountpoint = storage::image_directory(engine).await;
    let place = mountpoint.clone();
    let size = blocking(move || disk::space(&place).ok()).await;
    let inodes = size.and_then(disk::Space::used_inodes);
    let measured_at = Nanos(clock::nanos());
    FilesystemUsage { mountpoint, inodes, measured_at, image_bytes: 0 }
}

async fn engine_info(store: &Store) -> Arc<EngineInfo> {
    until(store, |now| now.engine.clone()).await
}

/// Waits until `find` returns a value for the store's snapshot; forever if the store has ended.
async fn until<T>(store: &Store, find: impl Fn(&Snapshot) -> Option<T>) -> T {
    match store.when(|now| find(now)).await {
        Some(found) => found,
        None => std::future::pending().await,
    }
}

/// The sum of the sizes of all images. The sum is too large if images share layers, because it counts a shared layer
/// for each image.
fn estimate(snapshot: &Snapshot) -> u64 {
    snapshot.images().iter().map(|image| image.size).fold(0, u64::saturating_add)
}

const FIRST_TIMEOUT: Duration = Duration::from_secs(2);
const MEASURE_DEADLINE: Duration = Duration::from_secs(120);
/// The time between two reads of the disk: half of kubelet's eviction interval.
const DISK_INTERVAL: Duration = Duration::from_secs(5);
/// The shortest time between two measurements of the images' size, also after a failed measurement.
const INTERVAL: Duration = Duration::from_secs(30);
/// Successful measurements of the images' size take at most one tenth of the time.
const SHARE: u32 = 10;
/// The shortest time from a change to the measurement, so that one measurement includes several quick changes.
const DEBOUNCE: Duration = Duration::from_secs(2);
