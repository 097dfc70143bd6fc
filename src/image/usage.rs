//! How much space images take: the engine measures it in the background, because that costs it
//! seconds on a full node, and it is answered from memory. The disk itself is looked at all the
//! time: kubelet evicts by figures that are newer than those it saw ten seconds before.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::debug;

use super::error::ImageError;
use crate::{
    engine::{client::Engine, storage},
    host::{clock, disk},
    model::{engine::EngineInfo, image::FilesystemUsage, record::ImageRecord, time::Nanos},
    store::{handle::Store, snapshot::Snapshot},
};

/// The latest figures. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Gauge {
    image_bytes: Arc<watch::Sender<Option<u64>>>,
    disk: Arc<watch::Sender<Option<Disk>>>,
}

/// Where images and layers are, as this machine shows it.
#[derive(Clone)]
struct Disk {
    mountpoint: PathBuf,
    /// In use on the file system, by whoever.
    inodes: Option<u64>,
    looked_at: Nanos,
}

/// What the last measurement depended on.
struct Seen {
    engine: Option<Arc<EngineInfo>>,
    images: Vec<Arc<ImageRecord>>,
}

impl Gauge {
    /// Keeps all figures, for ever. A disk that hangs holds up no measurement.
    pub(super) async fn keep(self, engine: Engine, store: Store) {
        tokio::join!(self.measure(&engine, &store), self.look(&store));
    }

    /// Measures at the start and after each change of the images.
    ///
    /// Changes that come together are measured together, and measuring takes a small part of the
    /// time however slow the engine is.
    async fn measure(&self, engine: &Engine, store: &Store) {
        loop {
            described(store).await;
            let began = Instant::now();
            let seen = Seen::now(store);
            match timeout(MEASURE_DEADLINE, engine.image_bytes()).await {
                Ok(Ok(bytes)) => {
                    self.image_bytes.send_replace(Some(bytes));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    seen.outdated(store).await;
                    sleep(DEBOUNCE).await;
                    sleep_until(began + pause).await;
                }
                Ok(Err(error)) => self.fall_back(store, &error.to_string()).await,
                Err(late) => self.fall_back(store, &late.to_string()).await,
            }
        }
    }

    /// Nobody shall wait for a measurement that did not come; the next one may.
    async fn fall_back(&self, store: &Store, error: &str) {
        debug!(error, "cannot measure the image store");
        self.image_bytes.send_if_modified(|latest| {
            let first = latest.is_none();
            latest.get_or_insert_with(|| estimate(&store.snapshot()));
            first
        });
        sleep(INTERVAL).await;
    }

    /// Looks at the disk again and again. While a look hangs, the time of the one before is told.
    async fn look(&self, store: &Store) {
        loop {
            let disk = Disk::of(&*described(store).await).await;
            self.disk.send_replace(Some(disk));
            sleep(LOOK_EVERY).await;
        }
    }

    /// The latest figures; for the images a bound from their own sizes while there is none.
    pub(super) async fn read(&self, store: &Store) -> Result<FilesystemUsage, ImageError> {
        let deadline = Instant::now() + FIRST_PATIENCE;
        let engine = store.wait(FIRST_PATIENCE, |snapshot| snapshot.engine.clone()).await;
        let engine = engine.ok_or(ImageError::NoFilesystem)?;
        let image_bytes = first(&self.image_bytes, deadline).await;
        let unseen =
            || Disk { mountpoint: engine.root_dir.clone(), inodes: None, looked_at: Nanos::UNSET };
        let disk = first(&self.disk, deadline).await.unwrap_or_else(unseen);
        Ok(FilesystemUsage {
            mountpoint: disk.mountpoint,
            image_bytes: image_bytes.unwrap_or_else(|| estimate(&store.snapshot())),
            inodes: disk.inodes,
            measured_at: disk.looked_at,
        })
    }
}

/// What is known; waits for it if it never was.
async fn first<T: Clone>(latest: &watch::Sender<Option<T>>, deadline: Instant) -> Option<T> {
    let mut latest = latest.subscribe();
    let known = timeout_at(deadline, latest.wait_for(Option::is_some)).await.ok()?;
    known.ok().and_then(|known| known.clone())
}

impl Disk {
    /// Looks at it. May hang for as long as the file system does.
    async fn of(engine: &EngineInfo) -> Self {
        let mountpoint = storage::mountpoint(engine).await;
        let place = mountpoint.clone();
        let size = spawn_blocking(move || disk::size(&place).ok()).await.ok().flatten();
        let inodes = size.and_then(disk::Size::used_inodes);
        Self { mountpoint, inodes, looked_at: Nanos(clock::nanos()) }
    }
}

impl Seen {
    fn now(store: &Store) -> Self {
        let now = store.snapshot();
        Self { engine: now.engine.clone(), images: now.images().to_vec() }
    }

    /// Resolves when another measurement would come to another result.
    async fn outdated(&self, store: &Store) {
        until(store, |now| now.images() != self.images || now.engine != self.engine).await;
    }
}

/// What the engine says of itself, once it has spoken.
async fn described(store: &Store) -> Arc<EngineInfo> {
    loop {
        if let Some(engine) = store.wait(RECHECK, |snapshot| snapshot.engine.clone()).await {
            return engine;
        }
        // A closed store answers at once.
        sleep(DEBOUNCE).await;
    }
}

/// Resolves when the store shows what is waited for.
async fn until(store: &Store, holds: impl Fn(&Snapshot) -> bool) {
    while store.wait(RECHECK, |snapshot| holds(snapshot).then_some(())).await.is_none() {
        // A closed store answers at once.
        sleep(DEBOUNCE).await;
    }
}

/// Layers that images share are counted more than once: too much, but never nothing, which
/// kubelet would take for a broken file system.
fn estimate(snapshot: &Snapshot) -> u64 {
    snapshot.images().iter().map(|image| image.size).fold(0, u64::saturating_add)
}

/// How long the first answer may wait for the first measurement.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// How long one measurement may take.
const MEASURE_DEADLINE: Duration = Duration::from_secs(120);
/// Time between two looks at the disk: half of the time between two of kubelet's for evictions.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time between two measurements, at least; also when one failed.
const INTERVAL: Duration = Duration::from_secs(30);
/// Measuring takes at most the n-th part of the time.
const SHARE: u32 = 10;
/// A measurement comes this long after the first change, to take in those that follow.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// The store is waited for in turns of this length.
const RECHECK: Duration = Duration::from_secs(3600);
