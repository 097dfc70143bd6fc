//! How much space images take: measured in the background, because it costs the engine seconds
//! on a full node, and answered from memory.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tracing::debug;

use super::error::ImageError;
use crate::{
    engine::{client::Engine, images::DiskUsage},
    host::clock,
    model::{
        engine::EngineInfo,
        image::FilesystemUsage,
        record::{ContainerRecord, ImageRecord},
        time::Nanos,
    },
    store::{handle::Store, snapshot::Snapshot},
};

/// The latest measurement. Clones share it.
#[derive(Clone)]
pub(super) struct Gauge {
    latest: Arc<watch::Sender<Option<FilesystemUsage>>>,
}

/// What the last measurement depended on.
struct Seen {
    engine: Option<Arc<EngineInfo>>,
    images: Vec<Arc<ImageRecord>>,
    containers: Vec<Arc<ContainerRecord>>,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { latest: Arc::new(watch::Sender::new(None)) }
    }
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
            let place = mountpoint(&described).await;
            let began = Instant::now();
            let seen = Seen::now(&store);
            match timeout(MEASURE_DEADLINE, engine.disk_usage()).await {
                Ok(Ok(usage)) => {
                    self.latest.send_replace(Some(measured(place, usage)));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    seen.outdated(&store, began).await;
                    sleep(DEBOUNCE).await;
                    sleep_until(began + pause).await;
                }
                Ok(Err(error)) => self.fall_back(&store, place, &error.to_string()).await,
                Err(late) => self.fall_back(&store, place, &late.to_string()).await,
            }
        }
    }

    /// Nobody shall wait for a measurement that did not come; the next one may.
    async fn fall_back(&self, store: &Store, place: PathBuf, error: &str) {
        debug!(error, "cannot measure the image store");
        self.latest.send_if_modified(|latest| {
            let first = latest.is_none();
            latest.get_or_insert_with(|| measured(place, estimate(&store.snapshot())));
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
        let estimated = || measured(engine.root_dir.clone(), estimate(&store.snapshot()));
        Ok(known.unwrap_or_else(estimated))
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

fn measured(mountpoint: PathBuf, usage: DiskUsage) -> FilesystemUsage {
    FilesystemUsage {
        mountpoint,
        image_bytes: usage.images,
        container_bytes: usage.containers,
        measured_at: Nanos(clock::nanos()),
        inodes: None,
    }
}

/// The directory images and writable layers are kept in, or the nearest one above it that is
/// visible here.
///
/// With containerd's image store the engine does not say where that is: it is where the
/// snapshotter's directory is, below the engine's own containerd or the system's.
pub(super) async fn mountpoint(engine: &EngineInfo) -> PathBuf {
    if engine.containerd_store {
        let snapshotter = format!("io.containerd.snapshotter.v1.{}", engine.storage_driver);
        let own = engine.root_dir.join(OWN_CONTAINERD);
        for root in [own.as_path(), Path::new(SYSTEM_CONTAINERD)] {
            let layers = root.join(&snapshotter);
            if device(&layers).await.is_some() {
                return of_layers(root, layers).await;
            }
        }
    }
    for directory in engine.root_dir.ancestors() {
        if device(directory).await.is_some() {
            return of_layers(directory, directory.join(&engine.storage_driver)).await;
        }
    }
    engine.root_dir.clone()
}

/// The directory of the layers where they have a disk of their own, else the one around it.
async fn of_layers(root: &Path, layers: PathBuf) -> PathBuf {
    let own = device(&layers).await.filter(|_| root != layers);
    if own.is_some() && own != device(root).await { layers } else { root.to_owned() }
}

/// The device a directory is on; none when it cannot be seen.
async fn device(path: &Path) -> Option<u64> {
    tokio::fs::metadata(path).await.ok().map(|facts| facts.dev())
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
/// The engine's own containerd, below its data root.
const OWN_CONTAINERD: &str = "containerd/daemon";
/// Where the system's containerd keeps its data, unless configured otherwise.
const SYSTEM_CONTAINERD: &str = "/var/lib/containerd";
