//! How much space images take: measured in the background, because it costs the engine seconds
//! on a full node, and answered from memory.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::debug;

use super::error::ImageError;
use crate::{
    engine::{client::Engine, images::DiskUsage, storage},
    host::{clock, disk},
    model::{
        engine::EngineInfo,
        image::FilesystemUsage,
        record::{ContainerRecord, ImageRecord},
        time::Nanos,
    },
    store::{handle::Store, snapshot::Snapshot},
};

/// The latest measurement. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Gauge {
    latest: Arc<watch::Sender<Option<FilesystemUsage>>>,
    /// Known sooner than what is in it.
    disk: Arc<watch::Sender<Option<Disk>>>,
}

/// Where images and layers are, as this machine shows it.
#[derive(Clone)]
struct Disk {
    mountpoint: PathBuf,
    /// In use on the file system, by whoever.
    inodes: Option<u64>,
}

/// What the last measurement depended on.
struct Seen {
    engine: Option<Arc<EngineInfo>>,
    images: Vec<Arc<ImageRecord>>,
    containers: Vec<Arc<ContainerRecord>>,
}

impl Gauge {
    /// Measures at the start and after each change of the images, for ever; for the writable
    /// layers' sake also after changes of containers, but not so often.
    ///
    /// Changes that come together are measured together, and measuring takes a small part of the
    /// time however slow the engine is.
    pub(super) async fn keep(self, engine: Engine, store: Store) {
        loop {
            let described = described(&store).await;
            let disk = Disk::of(&described).await;
            self.disk.send_replace(Some(disk.clone()));
            let began = Instant::now();
            let seen = Seen::now(&store);
            match timeout(MEASURE_DEADLINE, engine.disk_usage()).await {
                Ok(Ok(usage)) => {
                    self.latest.send_replace(Some(measured(disk, usage)));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    seen.outdated(&store, began).await;
                    sleep(DEBOUNCE).await;
                    sleep_until(began + pause).await;
                }
                Ok(Err(error)) => self.fall_back(&store, disk, &error.to_string()).await,
                Err(late) => self.fall_back(&store, disk, &late.to_string()).await,
            }
        }
    }

    /// Nobody shall wait for a measurement that did not come; the next one may.
    async fn fall_back(&self, store: &Store, disk: Disk, error: &str) {
        debug!(error, "cannot measure the image store");
        self.latest.send_if_modified(|latest| {
            let first = latest.is_none();
            latest.get_or_insert_with(|| measured(disk, estimate(&store.snapshot())));
            first
        });
        sleep(INTERVAL).await;
    }

    /// The latest measurement; a bound from the images' own sizes while there is none.
    pub(super) async fn read(&self, store: &Store) -> Result<FilesystemUsage, ImageError> {
        let deadline = Instant::now() + FIRST_PATIENCE;
        let engine = store.wait(FIRST_PATIENCE, |snapshot| snapshot.engine.clone()).await;
        let engine = engine.ok_or(ImageError::NoFilesystem)?;
        let mut latest = self.latest.subscribe();
        let wait = timeout_at(deadline, latest.wait_for(Option::is_some)).await;
        let known = wait.ok().and_then(Result::ok).and_then(|known| known.clone());
        let estimated = || {
            let unseen = || Disk { mountpoint: engine.root_dir.clone(), inodes: None };
            let disk = self.disk.borrow().clone().unwrap_or_else(unseen);
            measured(disk, estimate(&store.snapshot()))
        };
        Ok(known.unwrap_or_else(estimated))
    }
}

impl Disk {
    /// Looks at it. May hang for as long as the file system does; nobody waits for that.
    async fn of(engine: &EngineInfo) -> Self {
        let mountpoint = storage::mountpoint(engine).await;
        let place = mountpoint.clone();
        let size = spawn_blocking(move || disk::size(&place).ok()).await.ok().flatten();
        Self { mountpoint, inodes: size.and_then(disk::Size::used_inodes) }
    }
}

impl Seen {
    fn now(store: &Store) -> Self {
        let now = store.snapshot();
        let (images, containers) = (now.images().to_vec(), now.containers().to_vec());
        Self { engine: now.engine.clone(), images, containers }
    }

    /// Resolves when another measurement would come to another result.
    async fn outdated(&self, store: &Store, began: Instant) {
        let images = until(store, |now| now.images() != self.images || now.engine != self.engine);
        let containers = async {
            sleep_until(began + CALM_INTERVAL).await;
            until(store, |now| now.containers() != self.containers).await;
        };
        tokio::select! { () = images => {}, () = containers => {} }
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
fn estimate(snapshot: &Snapshot) -> DiskUsage {
    let sizes = snapshot.images().iter().map(|image| image.size);
    DiskUsage { images: sizes.fold(0, u64::saturating_add), containers: 0 }
}

fn measured(disk: Disk, usage: DiskUsage) -> FilesystemUsage {
    FilesystemUsage {
        mountpoint: disk.mountpoint,
        image_bytes: usage.images,
        container_bytes: usage.containers,
        measured_at: Nanos(clock::nanos()),
        inodes: disk.inodes,
    }
}

/// How long the first answer may wait for the first measurement.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// How long one measurement may take.
const MEASURE_DEADLINE: Duration = Duration::from_secs(120);
/// Time between two measurements, at least; also when one failed.
const INTERVAL: Duration = Duration::from_secs(30);
/// Time between a measurement and one that only containers call for.
const CALM_INTERVAL: Duration = Duration::from_secs(300);
/// Measuring takes at most the n-th part of the time.
const SHARE: u32 = 10;
/// A measurement comes this long after the first change, to take in those that follow.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// The store is waited for in turns of this length.
const RECHECK: Duration = Duration::from_secs(3600);
