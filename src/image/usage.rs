//! How much space images take: measured in the background, because it costs the engine seconds
//! on a full node, and answered from memory.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::debug;

use super::error::ImageError;
use crate::{
    engine::client::Engine,
    model::{engine::EngineInfo, image::FilesystemUsage, time::Nanos},
    store::{handle::Store, snapshot::Snapshot},
};

/// The latest measurement. Clones share it.
#[derive(Clone)]
pub(super) struct Gauge {
    latest: Arc<watch::Sender<Option<Reading>>>,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
struct Reading {
    bytes: u64,
    at: Nanos,
}

impl Default for Gauge {
    fn default() -> Self {
        Self { latest: Arc::new(watch::Sender::new(None)) }
    }
}

impl Gauge {
    /// Measures at the start and after each change of the images, for ever.
    ///
    /// Changes that come together are measured together, and measuring takes a small part of the
    /// time however slow the engine is.
    pub(super) async fn keep(self, engine: Engine, store: Store) {
        until(&store, |snapshot| snapshot.engine.is_some()).await;
        loop {
            let began = Instant::now();
            let seen = store.snapshot().images().to_vec();
            match timeout(MEASURE_DEADLINE, engine.image_bytes()).await {
                Ok(Ok(bytes)) => {
                    self.latest.send_replace(Some(Reading { bytes, at: now() }));
                    let pause = INTERVAL.max(began.elapsed() * SHARE);
                    until(&store, |snapshot| snapshot.images() != seen).await;
                    sleep(DEBOUNCE).await;
                    sleep_until(began + pause).await;
                }
                Ok(Err(error)) => self.fall_back(&store, &error.to_string()).await,
                Err(late) => self.fall_back(&store, &late.to_string()).await,
            }
        }
    }

    /// Nobody shall wait for a measurement that did not come; the next one may.
    async fn fall_back(&self, store: &Store, error: &str) {
        debug!(error, "cannot measure the image store");
        self.latest.send_if_modified(|latest| {
            let first = latest.is_none();
            *latest = latest.or_else(|| Some(estimate(&store.snapshot())));
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
        let wait = tokio::time::timeout_at(deadline, latest.wait_for(Option::is_some)).await;
        let measured = wait.ok().and_then(Result::ok).and_then(|reading| *reading);
        let reading = measured.unwrap_or_else(|| estimate(&store.snapshot()));
        Ok(FilesystemUsage {
            mountpoint: mountpoint(&engine).await,
            image_bytes: reading.bytes,
            measured_at: reading.at,
            ..FilesystemUsage::default()
        })
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
fn estimate(snapshot: &Snapshot) -> Reading {
    let sizes = snapshot.images().iter().map(|image| image.size);
    Reading { bytes: sizes.fold(0, u64::saturating_add), at: now() }
}

/// The directory images are kept in, or the nearest one above it that is visible here.
///
/// With containerd's image store the engine does not say where that is: it is where the
/// snapshotter's directory is, below the engine's own containerd or the system's.
pub(super) async fn mountpoint(engine: &EngineInfo) -> PathBuf {
    if engine.containerd_store {
        let snapshotter = format!("io.containerd.snapshotter.v1.{}", engine.storage_driver);
        let own = engine.root_dir.join(OWN_CONTAINERD);
        for root in [own.as_path(), Path::new(SYSTEM_CONTAINERD)] {
            if is_visible(&root.join(&snapshotter)).await {
                return root.to_owned();
            }
        }
    }
    for directory in engine.root_dir.ancestors() {
        if is_visible(directory).await {
            return directory.to_owned();
        }
    }
    engine.root_dir.clone()
}

async fn is_visible(path: &Path) -> bool {
    tokio::fs::try_exists(path).await.unwrap_or(false)
}

fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// How long the first answer may wait for the first measurement.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// How long one measurement may take.
const MEASURE_DEADLINE: Duration = Duration::from_secs(120);
/// Time between two measurements, at least; also when one failed.
const INTERVAL: Duration = Duration::from_secs(30);
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
