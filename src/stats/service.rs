//! [`Stats`]: resource usage of the containers and pods of a snapshot.
//!
//! Files of the kernel are read on a few blocking threads in parallel. Containers that end between the
//! snapshot and the reading are left out.

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
        record::{ContainerRecord, Process, SandboxRecord},
        stats::{ContainerReading, Detail, Disks, PodReading},
    },
    store::{handle::Store, snapshot::Snapshot},
};

/// Resource usage of containers and pods. Clones share the kept data.
#[derive(Clone, Debug)]
pub struct Stats {
    pub(super) collector: Arc<Collector>,
}

impl Stats {
    /// Reads these cgroups, and measures writable layers until the last handle is dropped. Data is kept
    /// only for cgroups of running containers.
    pub fn start(store: Store, cgroups: Cgroups) -> Self {
        let stats = Self::new(cgroups);
        tokio::spawn(layer_walker::walk(Arc::downgrade(&stats.collector), store.clone()));
        tokio::spawn(disk_watcher::watch(Arc::downgrade(&stats.collector), store.clone()));
        tokio::spawn(forget(Arc::downgrade(&stats.collector), store));
        stats
    }

    /// Without the background tasks.
    pub(super) fn new(cgroups: Cgroups) -> Self {
        Self { collector: Arc::new(Collector::new(cgroups, workers())) }
    }

    /// Usage of one container. If it does not run, only its layer.
    pub async fn container(
        &self,
        record: &Arc<ContainerRecord>,
    ) -> Result<ContainerReading, Failure> {
        let read =
            self.spread(vec![Arc::clone(record)], Detail::Usage, Collector::container).await?;
        Ok(read.into_iter().next().unwrap_or_else(|| self.collector.blank(record)))
    }

    /// Usage of the requested running containers, newest first.
    pub async fn containers(
        &self,
        now: &Snapshot,
        is_asked: impl Fn(&ContainerRecord) -> bool,
        detail: Detail,
    ) -> Result<Vec<ContainerReading>, Failure> {
        let runs = |record: &&Arc<ContainerRecord>| record.process.is_running();
        let asked = now.containers().iter().filter(runs).filter(|record| is_asked(record));
        self.spread(asked.cloned().collect(), detail, Collector::container).await
    }

    /// Usage of one pod. If its pause container does not run, only the usage of its containers.
    pub async fn pod(
        &self,
        now: &Snapshot,
        record: &Arc<SandboxRecord>,
    ) -> Result<PodReading, Failure> {
        let target = PodTarget::of(record, now);
        let read = self.spread(vec![target], Detail::Usage, Collector::pod).await?;
        Ok(read.into_iter().next().unwrap_or_else(|| PodReading::blank(record)))
    }

    /// Usage of the requested pods whose pause container runs, newest first.
    pub async fn pods(
        &self,
        now: &Snapshot,
        is_asked: impl Fn(&SandboxRecord) -> bool,
        detail: Detail,
    ) -> Result<Vec<PodReading>, Failure> {
        let runs =
            |record: &&Arc<SandboxRecord>| record.process.as_ref().is_some_and(Process::is_running);
        let asked = now.sandboxes().iter().filter(runs).filter(|record| is_asked(record));
        let targets = PodTarget::all(asked, now);
        self.spread(targets, detail, Collector::pod).await
    }

    /// The disks that figures refer to, as read a few seconds ago.
    pub fn disks(&self) -> Arc<Disks> {
        self.collector.disks.at(Instant::now())
    }

    /// Bytes that running containers wrote to their layers, from the last measurements.
    pub fn layer_bytes(&self) -> u64 {
        self.collector.layers.bytes()
    }

    /// Reads `subjects` on a few threads and keeps their order.
    async fn spread<T, R>(
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

/// Forgets what has ended, soon after the store shows it. Does not wait for any file system, so that the
/// kept data does not grow if one hangs.
async fn forget(collector: Weak<Collector>, store: Store) {
    let mut seen: Option<Arc<Snapshot>> = None;
    loop {
        let is_news = |now: &Arc<Snapshot>| seen.as_ref().is_none_or(|it| !Arc::ptr_eq(it, now));
        let news = store.when(|now| is_news(now).then(|| Arc::clone(now))).await;
        let Some((now, collector)) = news.zip(collector.upgrade()) else { return };
        collector.retain(now.containers(), now.sandboxes());
        seen = Some(now);
        drop(collector);
        sleep(TOGETHER).await;
    }
}

/// Figures would be missing, which would look as if there were no limit and no memory usage.
fn starved() -> Failure {
    let text = "no file descriptors are left to read stats: raise the limit of open files of dockbridge \
                (LimitNOFILE)";
    Failure::new(Kind::ResourceExhausted, text)
}

/// More threads than this would only wait for each other.
fn workers() -> usize {
    available_parallelism().map_or(1, usize::from).clamp(1, MOST_WORKERS)
}

/// Containers that end within this time are forgotten together.
const TOGETHER: Duration = Duration::from_secs(1);
const MOST_WORKERS: usize = 4;
/// Fewer are read before another thread could wake up.
const SMALLEST_SHARE: usize = 8;
