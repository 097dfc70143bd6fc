//! [`Stats`]: resource usage of the containers and pods of a snapshot.
//!
//! Up to four threads read a long list in parallel. Lists leave out containers and pods that end before their reading.

use std::{
    sync::{Arc, Weak},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    collector::{Collector, ReadContext},
    disk_watcher, layer_walker,
    pods::PodTarget,
    read::file::Files,
};
use crate::{
    concurrency::blocking::blocking,
    error::{Failure, Kind},
    host::cgroup::Cgroups,
    model::{
        record::{ContainerRecord, SandboxRecord},
        stats::{ContainerReading, Detail, Disks, PodReading},
    },
    store::{handle::Store, snapshot::Snapshot},
};

/// Resource usage of containers and pods. Clones share the data that is kept between readings.
#[derive(Clone, Debug)]
pub struct Stats {
    pub(super) collector: Arc<Collector>,
}

impl Stats {
    /// Starts the background tasks, which measure writable layers and disks until the last clone is dropped,
    /// and discard data of containers that have ended.
    pub fn start(store: Store, cgroups: Cgroups) -> Self {
        let stats = Self::new(cgroups);
        tokio::spawn(layer_walker::walk(Arc::downgrade(&stats.collector), store.clone()));
        tokio::spawn(disk_watcher::watch(Arc::downgrade(&stats.collector), store.clone()));
        tokio::spawn(forget(Arc::downgrade(&stats.collector), store));
        stats
    }

    /// Creates the service without its background tasks.
    pub(super) fn new(cgroups: Cgroups) -> Self {
        Self { collector: Arc::new(Collector::new(cgroups, workers())) }
    }

    /// Resource usage of one container; at most the size of its layer if the container does not run or dockbridge does
    /// not see its cgroup.
    pub async fn container(
        &self,
        record: &Arc<ContainerRecord>,
    ) -> Result<ContainerReading, Failure> {
        let read = self
            .read_in_parallel(vec![Arc::clone(record)], Detail::Usage, Collector::container)
            .await?;
        Ok(read.into_iter().next().unwrap_or_else(|| self.collector.unknown(record)))
    }

    /// Resource usage of all running containers for which `is_requested` is true, newest first.
    pub async fn containers(
        &self,
        now: &Snapshot,
        is_requested: impl Fn(&ContainerRecord) -> bool,
        detail: Detail,
    ) -> Result<Vec<ContainerReading>, Failure> {
        let runs = |record: &&Arc<ContainerRecord>| record.process.is_running();
        let requested = now.containers().iter().filter(runs).filter(|record| is_requested(record));
        self.read_in_parallel(requested.cloned().collect(), detail, Collector::container).await
    }

    /// Resource usage of one pod. If the pause container does not run, at most the usage of the pod's containers.
    pub async fn pod(
        &self,
        now: &Snapshot,
        record: &Arc<SandboxRecord>,
    ) -> Result<PodReading, Failure> {
        let target = PodTarget::all(std::iter::once(record), now);
        let read = self.read_in_parallel(target, Detail::Usage, Collector::pod).await?;
        Ok(read.into_iter().next().unwrap_or_else(|| PodReading::unknown(record)))
    }

    /// Resource usage of all pods for which `is_requested` is true and whose pause container runs, newest first.
    pub async fn pods(
        &self,
        now: &Snapshot,
        is_requested: impl Fn(&SandboxRecord) -> bool,
        detail: Detail,
    ) -> Result<Vec<PodReading>, Failure> {
        let requested = now.sandboxes().iter().filter(|pod| pod.is_running() && is_requested(pod));
        let targets = PodTarget::all(requested, now);
        self.read_in_parallel(targets, detail, Collector::pod).await
    }

    /// The disks to which figures refer, as last read; empty if dockbridge has not read them in the last minute.
    pub fn disks(&self) -> Arc<Disks> {
        self.collector.disks.at(Instant::now())
    }

    /// Total size in bytes of the measured writable layers of running containers.
    pub fn layer_bytes(&self) -> u64 {
        self.collector.layers.bytes()
    }

    /// Calls `read` for all `subjects`, on several threads if there are many. The results keep the order of `subjects`.
    async fn read_in_parallel<T, R>(
        &self,
        subjects: Vec<T>,
        detail: Detail,
        read: fn(&Collector, &T, &mut ReadContext<'_>) -> Option<R>,
    ) -> Result<Vec<R>, Failure>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let share = subjects.len().div_ceil(workers()).max(SMALLEST_SHARE);
        let options = Arc::new(self.collector.read_options(detail));
        let threads = match detail {
            Detail::Usage => &self.collector.threads,
            Detail::Everything => &self.collector.thorough,
        };
        let mut subjects = subjects.into_iter();
        let mut reading = Vec::new();
        loop {
            let part: Vec<T> = subjects.by_ref().take(share).collect();
            if part.is_empty() {
                break;
            }
            let (collector, options) = (Arc::clone(&self.collector), Arc::clone(&options));
            // The semaphore is never closed.
            let permit = Arc::clone(threads).acquire_owned().await.ok();
            reading.push(blocking(move || {
                let mut work = ReadContext { options: &options, files: Files::default() };
                let read = part.iter().filter_map(|one| read(&collector, one, &mut work));
                let read: Vec<R> = read.collect();
                drop(permit);
                if work.files.starved { Err(starved()) } else { Ok(read) }
            }));
        }
        let mut all = Vec::new();
        for part in reading {
            all.extend(part.await?);
        }
        Ok(all)
    }
}

/// Discards the data of containers that have ended, soon after the store shows their end, even if a file system hangs.
async fn forget(collector: Weak<Collector>, store: Store) {
    let mut seen: Option<Arc<Snapshot>> = None;
    loop {
        let is_new = |now: &Arc<Snapshot>| seen.as_ref().is_none_or(|it| !Arc::ptr_eq(it, now));
        let newer = store.when(|now| is_new(now).then(|| Arc::clone(now))).await;
        let Some((now, collector)) = newer.zip(collector.upgrade()) else { return };
        collector.retain(now.containers(), now.sandboxes());
        seen = Some(now);
        drop(collector);
        sleep(BATCH_TIME).await;
    }
}

/// The error if no file descriptors are left. An answer without the figures would look like no limit and no usage.
fn starved() -> Failure {
    let text = "no file descriptors are left to read stats: raise the limit of open files of dockbridge \
                (LimitNOFILE) or of the host (fs.file-max)";
    Failure::new(Kind::ResourceExhausted, text)
}

/// Maximum number of threads that read at the same time, for each [`Detail`]. More threads than processors would only
/// wait for each other.
fn workers() -> usize {
    available_parallelism().map_or(1, usize::from).clamp(1, MOST_WORKERS)
}

/// The shortest pause between two rounds in which dockbridge discards the data of ended containers.
const BATCH_TIME: Duration = Duration::from_secs(1);
const MOST_WORKERS: usize = 4;
/// The fewest subjects for a thread, except for the last thread. Reading fewer takes less time than waking another
/// thread.
const SMALLEST_SHARE: usize = 8;
