//! Measures the sizes of writable layers in the background, slowly and in one thread at a time.
//!
//! A layer may have millions of files, so dockbridge walks through it in steps. dockbridge pauses after each step, and
//! can continue with other layers before the next step of the same layer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};
use tracing::debug;

use super::{
    collector::{Collector, now},
    layers::Measurement,
};
use crate::{
    concurrency::blocking::blocking,
    engine::storage,
    host::{mounts::upper_directories, tree::Walk},
    model::{engine::EngineInfo, record::ContainerRecord, stats::LayerReading},
    store::{handle::Store, snapshot::Snapshot},
};

/// Measures layers until the collector is dropped.
pub(super) async fn walk(collector: Weak<Collector>, store: Store) {
    let mut schedule = Schedule::default();
    while let Some(collector) = collector.upgrade() {
        let now = store.snapshot();
        if schedule.is_due(&now) {
            schedule.enqueue_due(&collector, now).await;
        }
        let jobs = schedule.next();
        if jobs.is_empty() {
            drop(collector);
            schedule.idle(&store).await;
            continue;
        }
        let began = Instant::now();
        let step = FILES_PER_STEP.div_ceil(jobs.len());
        let results = move || jobs.into_iter().map(|job| job.go_on(step)).collect::<Vec<_>>();
        schedule.handle(blocking(results).await, &collector);
        drop(collector);
        sleep(began.elapsed().max(SHORTEST_STEP) * PAUSE_FACTOR).await;
    }
}

#[derive(Default)]
struct Schedule {
    checked: Option<Instant>,
    snapshot: Option<Arc<Snapshot>>,
    /// The directory that dockbridge reports for layers, when it was determined, and for which data of the engine.
    mountpoint: Option<(Instant, Arc<EngineInfo>, Arc<Path>)>,
    fresh: VecDeque<LayerJob>,
    open: VecDeque<LayerJob>,
    busy: HashSet<String>,
}

#[derive(Debug)]
pub(super) struct LayerJob {
    pub(super) id: String,
    pub(super) mountpoint: Arc<Path>,
    pub(super) upper: Option<PathBuf>,
    pub(super) walk: Option<Walk>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) enum StepResult {
    More(LayerJob),
    Done { id: String, measured: Measurement },
}

impl Schedule {
    /// Whether to search for layers to measure: sooner if the store has changed since the last search.
    fn is_due(&self, now: &Arc<Snapshot>) -> bool {
        let is_new = self.snapshot.as_ref().is_none_or(|last| !Arc::ptr_eq(last, now));
        let rest = if is_new { CHECK_NEW_EVERY } else { CHECK_EVERY };
        self.checked.is_none_or(|at| at.elapsed() >= rest)
    }

    async fn enqueue_due(&mut self, collector: &Collector, now: Arc<Snapshot>) {
        let at = Instant::now();
        (self.checked, self.snapshot) = (Some(at), Some(Arc::clone(&now)));
        let Some(engine) = &now.engine else { return };
        // Also skips containers not inspected yet: with a graph driver, only an inspect shows the layer's directory.
        let running = now.containers().iter().filter(|record| record.process.pid().is_some());
        let is_due = |record: &&Arc<ContainerRecord>| {
            let id = record.id.as_str();
            !self.busy.contains(id) && collector.layers.is_due(id, at)
        };
        let due: Vec<_> = running.filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        let mountpoint = self.mountpoint(engine).await;
        let known = due.iter().map(|record| collector.upper(record)).collect::<Vec<_>>();
        let mut mounted = match engine.containerd_store && known.contains(&None) {
            true => mounted_layers(collector.cgroups.proc.clone(), engine.root_dir.clone()).await,
            false => HashMap::new(),
        };
        for (record, upper) in due.into_iter().zip(known) {
            let id = record.id.to_string();
            self.busy.insert(id.clone());
            let (upper, mountpoint) = (upper.or_else(|| mounted.remove(&id)), mountpoint.clone());
            let job = LayerJob { id, mountpoint, upper, walk: None, took: Duration::ZERO };
            self.fresh.push_back(job);
        }
    }

    /// The [`storage::image_directory`], determined again after [`STORAGE_REFRESH`], or if the engine's data has
    /// changed.
    async fn mountpoint(&mut self, engine: &Arc<EngineInfo>) -> Arc<Path> {
        if let Some((at, of, known)) = &self.mountpoint
            && Arc::ptr_eq(of, engine)
            && at.elapsed() < STORAGE_REFRESH
        {
            return Arc::clone(known);
        }
        let mountpoint: Arc<Path> = storage::image_directory(engine).await.into();
        self.mountpoint = Some((Instant::now(), Arc::clone(engine), Arc::clone(&mountpoint)));
        mountpoint
    }

    fn handle(&mut self, results: Vec<StepResult>, collector: &Collector) {
        for result in results {
            match result {
                StepResult::More(job) => self.open.push_back(job),
                StepResult::Done { id, measured } => {
                    self.busy.remove(&id);
                    collector.layers.set(&id, measured, Instant::now());
                }
            }
        }
    }

    /// Waits for work: until the store has changed, or [`CHECK_EVERY`] has passed.
    async fn idle(&mut self, store: &Store) {
        sleep(SHORTEST_PAUSE).await;
        let last = &self.snapshot;
        let is_other = |now: &Arc<Snapshot>| last.as_ref().is_none_or(|it| !Arc::ptr_eq(it, now));
        let newer = store.when(|now| is_other(now).then_some(()));
        if timeout(CHECK_EVERY, newer).await.is_ok() {
            self.checked = None;
        }
    }

    /// The jobs of the next step. New jobs come first, because most layers are small. At most [`MOST_OPEN`] jobs are
    /// open, because each needs file descriptors.
    fn next(&mut self) -> Vec<LayerJob> {
        let room = MOST_OPEN.saturating_sub(self.open.len()).min(self.fresh.len());
        let mut jobs: Vec<LayerJob> = self.fresh.drain(..room).collect();
        if jobs.is_empty() {
            jobs.extend(self.open.pop_front());
        }
        jobs
    }
}

impl Collector {
    /// The directory of a writable layer, as the engine reports it, or otherwise as dockbridge last found it.
    fn upper(&self, record: &ContainerRecord) -> Option<PathBuf> {
        record.writable_layer.clone().or_else(|| self.layers.upper(record.id.as_str()))
    }
}

/// The directories of the layers that the engine has mounted, by the ids of their containers. Reads dockbridge's own
/// mount table, because a container can mount anything in its own mount namespace.
async fn mounted_layers(proc: PathBuf, root_dir: PathBuf) -> HashMap<String, PathBuf> {
    let read = move || {
        let table = fs::read_to_string(proc.join("self/mountinfo"))?;
        Ok::<_, io::Error>(upper_directories(&table, &root_dir))
    };
    let read = blocking(read).await;
    read.inspect_err(|error| debug!(%error, "cannot read the mount table")).unwrap_or_default()
}

impl LayerJob {
    /// Counts at most `entries` further files and directories of the layer.
    pub(super) fn go_on(mut self, entries: usize) -> StepResult {
        let began = Instant::now();
        let Some(mut walk) = self.walk.take().or_else(|| self.begin()) else {
            return StepResult::Done { id: self.id, measured: Measurement::default() };
        };
        let Some(size) = walk.step(entries) else {
            let took = self.took + began.elapsed();
            return StepResult::More(Self { walk: Some(walk), took, ..self });
        };
        let took = self.took + began.elapsed();
        let reading = LayerReading {
            at: now(),
            mountpoint: self.mountpoint.to_path_buf(),
            bytes: size.bytes,
            inodes: size.inodes,
        };
        let measured = Measurement { reading: Some(reading), upper: self.upper, took };
        StepResult::Done { id: self.id, measured }
    }

    fn begin(&self) -> Option<Walk> {
        let begun = Walk::begin(self.upper.as_deref()?);
        let begun = begun
            .inspect_err(|error| debug!(container = self.id, %error, "cannot measure a layer"));
        begun.ok()
    }
}

/// After this time, dockbridge determines the reported directory of layers again.
const STORAGE_REFRESH: Duration = Duration::from_secs(60);
/// How often dockbridge searches for layers to measure if the store does not change.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How often dockbridge searches for layers to measure if the store changes while other layers are measured.
const CHECK_NEW_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two searches for layers to measure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Number of files and directories for one step, divided among the layers of the step. A step takes a few milliseconds
/// if the kernel has cached the metadata of these files.
const FILES_PER_STEP: usize = 2000;
/// The pause after a step, as a multiple of the step's duration.
const PAUSE_FACTOR: u32 = 9;
/// A shorter step counts as this long, for example the step of an empty layer.
const SHORTEST_STEP: Duration = Duration::from_micros(200);
/// Maximum number of layers that are being measured at the same time.
const MOST_OPEN: usize = 8;
