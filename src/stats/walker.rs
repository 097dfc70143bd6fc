//! Measures writable layers, one after the other and slowly: nobody waits for it.
//!
//! A layer may have millions of files. It is walked in steps; between two of them others get
//! their turn and the disk gets its rest.

use std::{
    collections::{HashSet, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    groups,
    read::{file::Files, upper},
    room::Memory,
};
use crate::{
    engine::storage,
    host::{
        cgroup::Cgroups,
        quota,
        tree::{Size, Walk},
    },
    model::{engine::EngineInfo, record::ContainerRecord, stats::LayerReading},
    store::{handle::Store, snapshot::Snapshot},
};

/// Walks until nobody wants to know any more.
pub(super) async fn walk(memory: Weak<Memory>, store: Store) {
    let mut rounds = Rounds::default();
    while let Some(memory) = memory.upgrade() {
        if rounds.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            rounds.look(&memory, store.snapshot()).await;
        }
        let Some(job) = rounds.next() else {
            drop(memory);
            rounds.idle(&store).await;
            continue;
        };
        let began = Instant::now();
        let proc = memory.proc.clone();
        match spawn_blocking(move || job.go_on(&proc, STEP)).await {
            Ok(Turn::More(job)) => rounds.open.push_back(job),
            Ok(Turn::Done(id, reading)) => {
                memory.layers.note(&id, reading, Instant::now());
                rounds.busy.remove(&id);
            }
            // Only a panic, which is told of, or the end of everything.
            Err(_) => return,
        }
        drop(memory);
        sleep(began.elapsed().max(SHORTEST_STEP) * REST).await;
    }
}

/// Whose turn it is.
#[derive(Default)]
struct Rounds {
    looked: Option<Instant>,
    /// What was seen then.
    seen: Option<Arc<Snapshot>>,
    /// Not begun.
    fresh: VecDeque<Job>,
    /// Begun, and in need of further steps.
    open: VecDeque<Job>,
    /// Ids of all of them.
    busy: HashSet<String>,
}

/// A layer to be measured.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) record: Arc<ContainerRecord>,
    pub(super) storage: Arc<Storage>,
    pub(super) walk: Option<Walk>,
}

/// Where the engine keeps layers.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) mountpoint: PathBuf,
    /// What relative paths are below.
    pub(super) homes: [PathBuf; 2],
    /// Whose process it is. Shared, for the machine's mount table is long where pods are many.
    pub(super) cgroups: Cgroups,
}

/// How the size of a layer is found out.
enum Begun {
    /// The file system knows it.
    Counted(Size),
    Walk(Walk),
}

/// What came of a step.
#[derive(Debug)]
pub(super) enum Turn {
    More(Job),
    Done(String, Option<LayerReading>),
}

impl Rounds {
    /// Forgets what has ended and enlists what is due.
    async fn look(&mut self, memory: &Memory, now: Arc<Snapshot>) {
        self.looked = Some(Instant::now());
        self.seen = Some(Arc::clone(&now));
        memory.keep(now.containers(), now.sandboxes());
        let Some(engine) = &now.engine else { return };
        let mut storage = None;
        for record in now.containers().iter().filter(|record| record.process.is_running()) {
            let id = record.id.as_str();
            if self.busy.contains(id) || !memory.layers.is_due(id, Instant::now()) {
                continue;
            }
            if storage.is_none() {
                let cgroups = memory.groups.cgroups().clone();
                storage = Some(Arc::new(Storage::of(engine, cgroups).await));
            }
            if let Some(storage) = &storage {
                self.busy.insert(id.to_owned());
                let (record, storage) = (Arc::clone(record), Arc::clone(storage));
                self.fresh.push_back(Job { record, storage, walk: None });
            }
        }
    }

    /// Waits until there may be something to do: what has just begun is measured soon.
    async fn idle(&mut self, store: &Store) {
        sleep(SHORTEST_PAUSE).await;
        let seen = self.seen.take();
        let is_news = |now: &Arc<Snapshot>| seen.as_ref().is_none_or(|it| !Arc::ptr_eq(it, now));
        let news = store.when(|now| is_news(now).then_some(()));
        if timeout(LOOK_EVERY, news).await.is_ok() {
            self.looked = None;
        }
    }

    /// New ones first, since most are small; but each that is open holds descriptors.
    fn next(&mut self) -> Option<Job> {
        if self.open.len() >= MOST_OPEN {
            return self.open.pop_front();
        }
        self.fresh.pop_front().or_else(|| self.open.pop_front())
    }
}

impl Storage {
    async fn of(engine: &EngineInfo, cgroups: Cgroups) -> Self {
        let mountpoint = storage::mountpoint(engine).await;
        let homes = [engine.root_dir.join(&engine.storage_driver), mountpoint.clone()];
        Self { mountpoint, homes, cgroups }
    }
}

impl Job {
    /// Looks at this many files.
    pub(super) fn go_on(mut self, proc: &Path, entries: usize) -> Turn {
        let id = self.record.id.to_string();
        let size = match self.walk.take().map(Begun::Walk).or_else(|| self.begin(proc)) {
            None => return Turn::Done(id, None),
            Some(Begun::Counted(size)) => size,
            Some(Begun::Walk(mut walk)) => match walk.step(entries) {
                None => return Turn::More(Self { walk: Some(walk), ..self }),
                Some(size) => size,
            },
        };
        let mountpoint = self.storage.mountpoint.clone();
        let (bytes, inodes) = (size.bytes, size.inodes);
        Turn::Done(id, Some(LayerReading { at: groups::now(), mountpoint, bytes, inodes }))
    }

    fn begin(&self, proc: &Path) -> Option<Begun> {
        let (pid, id) = (self.record.process.pid()?, self.record.id.as_str());
        let mut files = Files::default();
        let told = files.text(&proc.join(pid.to_string()), "mountinfo")?;
        let upper = upper::resolved(told, &self.storage.homes)?;
        // Read first: it is this container's only if the process still is.
        self.storage.cgroups.of(pid, id).ok()?;
        if let Some(size) = quota::used(&upper) {
            return Some(Begun::Counted(size));
        }
        let walk = Walk::begin(&upper);
        let told = |error: &_| debug!(container = id, %error, "cannot measure a layer");
        walk.inspect_err(told).map(Begun::Walk).ok()
    }
}

/// How often is looked for what is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Changes that come together are looked at together.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// Files looked at in one step: some milliseconds when they are in the cache.
const STEP: usize = 2000;
/// Rest after a step, in times of what it took.
const REST: u32 = 9;
/// Even an empty layer's step counts as this long.
const SHORTEST_STEP: Duration = Duration::from_micros(200);
/// Walks that may be open at the same time.
const MOST_OPEN: usize = 8;
