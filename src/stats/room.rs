//! The handle: readings of containers and pods that a snapshot shows.
//!
//! Files of the kernel are read on blocking threads, a few side by side. What ends between the
//! snapshot and the reading is left out.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Weak},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use super::{
    disks::{self, Seen},
    error::StatsError,
    groups::{Found, Groups, means},
    layers::Layers,
    pods::Shape,
    rates::Rates,
    read::{
        file::Files,
        group::{Means, Places},
        processes,
    },
    walker,
};
use crate::{
    host::cgroup::Cgroups,
    model::{
        filter::{ContainerFilter, SandboxFilter},
        record::{ContainerRecord, Process, SandboxRecord},
        stats::{
            ContainerReading, Detail, Disks, GroupReading, PodReading, ProcessReading, Specimen,
        },
    },
    store::{handle::Store, snapshot::Snapshot},
};

/// What containers and pods use. Clones share what is remembered.
#[derive(Clone, Debug)]
pub struct Stats {
    pub(super) memory: Arc<Memory>,
}

/// What is remembered from reading to reading, all of it of containers that run.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) proc: PathBuf,
    pub(super) groups: Groups,
    pub(super) rates: Rates,
    pub(super) layers: Layers,
    pub(super) disks: Seen,
    /// However many ask, so many threads read.
    threads: Arc<Semaphore>,
    /// And so many more read everything: whoever asks for that keeps nobody else waiting.
    thorough: Arc<Semaphore>,
}

impl Stats {
    /// Reads these groups; measures writable layers until the last handle is gone. From then on
    /// only groups of containers that run are remembered.
    pub fn start(store: Store, cgroups: Cgroups) -> Self {
        let stats = Self::new(cgroups);
        tokio::spawn(walker::walk(Arc::downgrade(&stats.memory), store.clone()));
        tokio::spawn(disks::watch(Arc::downgrade(&stats.memory), store.clone()));
        tokio::spawn(forget(Arc::downgrade(&stats.memory), store));
        stats
    }

    /// Without anybody who measures layers.
    pub(super) fn new(cgroups: Cgroups) -> Self {
        let memory = Memory {
            proc: cgroups.proc().to_owned(),
            groups: Groups::of(cgroups, &mut Files::default()),
            rates: Rates::default(),
            layers: Layers::default(),
            disks: Seen::default(),
            threads: Arc::new(Semaphore::new(workers())),
            thorough: Arc::new(Semaphore::new(workers())),
        };
        Self { memory: Arc::new(memory) }
    }

    /// What one container uses; nothing but its layer while it does not run.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn container(
        &self,
        record: &Arc<ContainerRecord>,
    ) -> Result<ContainerReading, StatsError> {
        let read = self.spread(vec![Arc::clone(record)], Detail::Usage, Memory::container).await?;
        Ok(read.into_iter().next().unwrap_or_else(|| self.memory.blank(record)))
    }

    /// What the running containers use that are asked for, newest first.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn containers(
        &self,
        now: &Snapshot,
        filter: &ContainerFilter,
        detail: Detail,
    ) -> Result<Vec<ContainerReading>, StatsError> {
        let runs = |record: &&Arc<ContainerRecord>| record.process.is_running();
        let asked = now.containers().iter().filter(runs).filter(|record| filter.matches(record));
        self.spread(asked.cloned().collect(), detail, Memory::container).await
    }

    /// What one pod uses; nothing but its containers' share while its pause does not run.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn pod(
        &self,
        now: &Snapshot,
        record: &Arc<SandboxRecord>,
    ) -> Result<PodReading, StatsError> {
        let shape = Shape::of(record, now);
        let read = self.spread(vec![shape], Detail::Usage, Memory::pod).await?;
        Ok(read.into_iter().next().unwrap_or_else(|| PodReading::blank(record)))
    }

    /// What the pods use that are asked for and whose pause runs, newest first.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn pods(
        &self,
        now: &Snapshot,
        filter: &SandboxFilter,
        detail: Detail,
    ) -> Result<Vec<PodReading>, StatsError> {
        let runs =
            |record: &&Arc<SandboxRecord>| record.process.as_ref().is_some_and(Process::is_running);
        let asked = now.sandboxes().iter().filter(runs).filter(|record| filter.matches(record));
        let shapes = Shape::all(asked, now);
        self.spread(shapes, detail, Memory::pod).await
    }

    /// The disks that figures name, as seen some seconds ago.
    pub fn disks(&self) -> Arc<Disks> {
        self.memory.disks.at(Instant::now())
    }

    /// Bytes that running containers wrote to their layers, each as measured last.
    pub fn layer_bytes(&self) -> u64 {
        self.memory.layers.bytes()
    }

    /// What can be told on this machine at all, whether or not there is any pod.
    ///
    /// # Errors
    /// See [`StatsError`].
    pub async fn specimen(&self, now: &Snapshot) -> Result<Specimen, StatsError> {
        let memory = Arc::clone(&self.memory);
        // Only overlays have a directory that can be measured.
        let overlay = |driver: &str| driver.contains(OVERLAY);
        let layers = now.engine.as_ref().is_none_or(|engine| overlay(&engine.storage_driver));
        Ok(tokio::task::spawn_blocking(move || memory.specimen(layers)).await?)
    }

    /// Reads `subjects` on a few threads; their order stays.
    async fn spread<T, R>(
        &self,
        subjects: Vec<T>,
        detail: Detail,
        read: fn(&Memory, &T, &mut Work<'_>) -> Option<R>,
    ) -> Result<Vec<R>, StatsError>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let share = subjects.len().div_ceil(workers()).max(SMALLEST_SHARE);
        let means = Arc::new(means(detail));
        let threads = match detail {
            Detail::Usage => &self.memory.threads,
            Detail::Everything => &self.memory.thorough,
        };
        let mut subjects = subjects.into_iter();
        let mut reading = JoinSet::new();
        for place in 0.. {
            let part: Vec<T> = subjects.by_ref().take(share).collect();
            if part.is_empty() {
                break;
            }
            let (memory, means) = (Arc::clone(&self.memory), Arc::clone(&means));
            // The semaphore is never closed.
            let permit = Arc::clone(threads).acquire_owned().await.ok();
            reading.spawn_blocking(move || {
                let mut work = Work { means: &means, files: Files::default() };
                let read = part.iter().filter_map(|one| read(&memory, one, &mut work)).collect();
                drop(permit);
                if work.files.starved { Err(StatsError::Starved) } else { Ok((place, read)) }
            });
        }
        let mut parts: Vec<(u32, Vec<R>)> = Vec::new();
        while let Some(part) = reading.join_next().await {
            parts.push(part??);
        }
        parts.sort_by_key(|(place, _)| *place);
        Ok(parts.into_iter().flat_map(|(_, read)| read).collect())
    }
}

/// What a thread reads with.
pub(super) struct Work<'a> {
    pub(super) means: &'a Means,
    pub(super) files: Files,
}

impl Memory {
    /// What a container uses; none when it ended meanwhile.
    pub(super) fn container(
        &self,
        record: &Arc<ContainerRecord>,
        work: &mut Work<'_>,
    ) -> Option<ContainerReading> {
        let blank = self.blank(record);
        let Some(pid) = record.process.pid() else { return Some(blank) };
        let id = record.id.as_str();
        let places = match self.groups.find(id, pid) {
            Found::Here(places) => places,
            Found::Hidden => return Some(blank),
            Found::Ended => return None,
        };
        let group = self.group(id, &places, work)?;
        let processes = match work.means.detail {
            Detail::Usage => None,
            Detail::Everything => Some(self.processes(pid, &places, &group, work)),
        };
        Some(ContainerReading { group, processes, ..blank })
    }

    /// What a group uses, its rate included; none when it is gone.
    pub(super) fn group(
        &self,
        id: &str,
        places: &Places,
        work: &mut Work<'_>,
    ) -> Option<GroupReading> {
        let mut group = Groups::read(places, work.means, &mut work.files)?;
        if let Some(cpu) = &mut group.cpu {
            cpu.nano_cores = self.rates.next(id, cpu.usage, Instant::now());
        }
        Some(group)
    }

    /// Forgets whatever does not run any more.
    pub(super) fn keep(
        &self,
        containers: &[Arc<ContainerRecord>],
        sandboxes: &[Arc<SandboxRecord>],
    ) {
        let containers = containers.iter().filter(|record| record.process.is_running());
        let mut ids: HashSet<&str> = containers.map(|record| record.id.as_str()).collect();
        self.layers.keep(&ids);
        let pauses = sandboxes.iter().filter(|record| record.pid().is_some());
        ids.extend(pauses.flat_map(|record| [record.id.as_str(), record.document.parent()]));
        self.groups.cgroups().keep(|owner| ids.contains(owner));
        self.rates.keep(&ids);
    }

    fn blank(&self, record: &Arc<ContainerRecord>) -> ContainerReading {
        ContainerReading {
            record: Arc::clone(record),
            group: GroupReading::default(),
            processes: None,
            layer: self.layers.of(record.id.as_str()),
        }
    }

    fn processes(
        &self,
        main: u32,
        places: &Places,
        group: &GroupReading,
        work: &mut Work<'_>,
    ) -> ProcessReading {
        let pids = places.processes(&mut work.files);
        processes::read(&self.proc, main, &pids, group, &mut work.files)
    }
}

/// Forgets what has ended, soon after the store shows it. Waits for no file system: what is kept
/// of those that run must not grow when one hangs.
async fn forget(memory: Weak<Memory>, store: Store) {
    let mut seen: Option<Arc<Snapshot>> = None;
    loop {
        let is_news = |now: &Arc<Snapshot>| seen.as_ref().is_none_or(|it| !Arc::ptr_eq(it, now));
        let news = store.when(|now| is_news(now).then(|| Arc::clone(now))).await;
        let Some((now, memory)) = news.zip(memory.upgrade()) else { return };
        memory.keep(now.containers(), now.sandboxes());
        seen = Some(now);
        drop(memory);
        sleep(TOGETHER).await;
    }
}

/// More threads than this would only wait for each other.
fn workers() -> usize {
    available_parallelism().map_or(1, usize::from).clamp(1, MOST_WORKERS)
}

/// In the names of all such storage drivers and snapshotters.
const OVERLAY: &str = "overlay";
/// Ends that come together are forgotten together.
const TOGETHER: Duration = Duration::from_secs(1);
const MOST_WORKERS: usize = 4;
/// Fewer are read sooner than another thread wakes up.
const SMALLEST_SHARE: usize = 8;
