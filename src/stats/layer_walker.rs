//! Measures writable layers in the background, slowly and one after the other.
//!
//! A layer may have millions of files. It is walked in steps. Between two steps other layers are measured
//! and the disk has a rest.

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

/// Walks until the collector is dropped.
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
        let step = STEP.div_ceil(jobs.len());
        let results = move || jobs.into_iter().map(|job| job.go_on(step)).collect::<Vec<_>>();
        schedule.handle(blocking(results).await, &collector);
        drop(collector);
        sleep(began.elapsed().max(SHORTEST_STEP) * REST).await;
    }
}

#[derive(Default)]
struct Schedule {
    checked: Option<Instant>,
    snapshot: Option<Arc<Snapshot>>,
    /// The directory of the engine's layers, and when it was determined.
    mountpoint: Option<(Instant, Arc<EngineInfo>, Arc<Path>)>,
    /// Not started yet.
    fresh: VecDeque<LayerJob>,
    /// Started, with further steps to do.
    open: VecDeque<LayerJob>,
    /// The container ids of all jobs.
    busy: HashSet<String>,
}

#[derive(Debug)]
pub(super) struct LayerJob {
    pub(super) id: String,
    /// The directory of the engine's layers.
    pub(super) mountpoint: Arc<Path>,
    /// The layer's own directory, if it is known.
    pub(super) upper: Option<PathBuf>,
    pub(super) walk: Option<Walk>,
    /// How long the disk was busy with it so far.
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) enum StepResult {
    More(LayerJob),
    Done { id: String, measured: Measurement },
}

impl Schedule {
    /// Whether to check again. After a new snapshot this is sooner.
    fn is_due(&self, now: &Arc<Snapshot>) -> bool {
        let is_new = self.snapshot.as_ref().is_none_or(|last| !Arc::ptr_eq(last, now));
        let rest = if is_new { CHECK_NEW_EVERY } else { CHECK_EVERY };
        self.checked.is_none_or(|at| at.elapsed() >= rest)
    }

    async fn enqueue_due(&mut self, collector: &Collector, now: Arc<Snapshot>) {
        let at = Instant::now();
        (self.checked, self.snapshot) = (Some(at), Some(Arc::clone(&now)));
        let Some(engine) = &now.engine else { return };
        // Containers that are only listed have no directory yet.
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

    /// The directory of the engine's layers, which is determined again at intervals.
    async fn mountpoint(&mut self, engine: &Arc<EngineInfo>) -> Arc<Path> {
        if let Some((at, of, known)) = &self.mountpoint
            && Arc::ptr_eq(of, engine)
            && at.elapsed() < STORAGE_REFRESH
        {
            return Arc::clone(known);
        }
        let mountpoint: Arc<Path> = storage::mountpoint(engine).await.into();
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

    /// Waits until there may be work. New containers are measured soon.
    async fn idle(&mut self, store: &Store) {
        sleep(SHORTEST_PAUSE).await;
        let last = &self.snapshot;
        let is_other = |now: &Arc<Snapshot>| last.as_ref().is_none_or(|it| !Arc::ptr_eq(it, now));
        let newer = store.when(|now| is_other(now).then_some(()));
        if timeout(CHECK_EVERY, newer).await.is_ok() {
            self.checked = None;
        }
    }

    /// The next job. New ones come first, since most are small. The number of open ones is limited, because
    /// each needs descriptors.
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
    /// The directory of a writable layer, from the engine, otherwise from the last search.
    fn upper(&self, record: &ContainerRecord) -> Option<PathBuf> {
        record.writable_layer.clone().or_else(|| self.layers.upper(record.id.as_str()))
    }
}

/// The layers that the engine has mounted, by container. The host's mount namespace is read, because in its
/// own namespace a container decides what is mounted at its root.
async fn mounted_layers(proc: PathBuf, root_dir: PathBuf) -> HashMap<String, PathBuf> {
    let read = move || {
        let table = fs::read_to_string(proc.join("self/mountinfo"))?;
        Ok::<_, io::Error>(upper_directories(&table, &root_dir))
    };
    let read = blocking(read).await;
    read.inspect_err(|error| debug!(%error, "cannot read the mount table")).unwrap_or_default()
}

impl LayerJob {
    /// `entries` is the number of files in one step.
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

/// How often the engine's layers are compared with the disk.
const STORAGE_REFRESH: Duration = Duration::from_secs(60);
/// How often due layers are searched. Fewer searches cost less.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// The same after a change while others are being measured.
const CHECK_NEW_EVERY: Duration = Duration::from_secs(1);
/// Changes within this time are handled together.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Files in one step, which takes a few milliseconds if they are in the cache.
const STEP: usize = 2000;
/// The rest after a step, as a multiple of its duration.
const REST: u32 = 9;
/// Even the step of an empty layer counts as this long.
const SHORTEST_STEP: Duration = Duration::from_micros(200);
/// How many walks may be open at the same time.
const MOST_OPEN: usize = 8;
