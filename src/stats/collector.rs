//! Reads the usage of containers and pods. Between readings, keeps cgroups, CPU rates, layer sizes and data of disks.

use std::{collections::HashSet, sync::Arc, time::Instant};

use tokio::sync::Semaphore;

use super::{
    disks::DiskCache,
    layers::Layers,
    rates::Rates,
    read::{file::Files, group, group_files::ReadOptions, processes},
};
use crate::{
    host::{
        cgroup::{Cgroup, Cgroups, hugetlb},
        clock,
    },
    model::{
        record::{ContainerRecord, SandboxRecord},
        stats::{ContainerReading, Detail, GroupReading},
        time::Nanos,
    },
};

#[derive(Debug)]
pub(super) struct Collector {
    pub(super) cgroups: Cgroups,
    /// The memory of this machine in bytes; [`u64::MAX`] if unknown.
    machine_memory: u64,
    pub(super) rates: Rates,
    pub(super) layers: Layers,
    pub(super) disks: DiskCache,
    /// Limits the number of threads that read usage at the same time, except for readings with all details.
    pub(super) threads: Arc<Semaphore>,
    /// Limits the threads for readings with all details, so that other readings do not wait for these readings.
    pub(super) thorough: Arc<Semaphore>,
}

/// The options and buffers with which a thread reads.
pub(super) struct ReadContext<'a> {
    pub(super) options: &'a ReadOptions,
    pub(super) files: Files,
}

#[derive(Debug)]
pub(super) enum GroupLookup {
    Found(Arc<Cgroup>),
    /// A process with the pid exists, but dockbridge does not see a cgroup of the container.
    Hidden,
    Ended,
}

impl Collector {
    /// At most `threads` threads read at the same time, and as many more for readings with all details.
    pub(super) fn new(cgroups: Cgroups, threads: usize) -> Self {
        let memory = Files::default().text(&cgroups.proc, "meminfo").and_then(machine_memory);
        Self {
            cgroups,
            machine_memory: memory.unwrap_or(u64::MAX),
            rates: Rates::default(),
            layers: Layers::default(),
            disks: DiskCache::default(),
            threads: Arc::new(Semaphore::new(threads)),
            thorough: Arc::new(Semaphore::new(threads)),
        }
    }

    pub(super) fn read_options(&self, detail: Detail) -> ReadOptions {
        let page_sizes = match detail {
            Detail::Usage => Vec::new(),
            Detail::Everything => hugetlb::page_sizes(),
        };
        ReadOptions { detail, page_sizes, machine_memory: self.machine_memory, now }
    }

    /// Resource usage of a container; only the size of its layer if `record` has no pid or dockbridge does not see
    /// its cgroup. `None` if `record` has the pid of a process that has ended.
    pub(super) fn container(
        &self,
        record: &Arc<ContainerRecord>,
        work: &mut ReadContext<'_>,
    ) -> Option<ContainerReading> {
        let unknown = self.unknown(record);
        let Some(pid) = record.process.pid() else { return Some(unknown) };
        let id = record.id.as_str();
        let group = match self.find(id, pid) {
            GroupLookup::Found(group) => group,
            GroupLookup::Hidden => return Some(unknown),
            GroupLookup::Ended => return None,
        };
        let reading = self.group(id, &group, record.limits.cpu_shares, work)?;
        let read = || processes::read(&self.cgroups.proc, pid, &group, &reading, &mut work.files);
        let processes = (work.options.detail == Detail::Everything).then(read);
        Some(ContainerReading { group: reading, processes, ..unknown })
    }

    /// The cgroup of the container `id`, whose main process is `pid`.
    pub(super) fn find(&self, id: &str, pid: u32) -> GroupLookup {
        let known = self.cgroups.cached(pid, id);
        match known.or_else(|| self.cgroups.find(pid, id).ok()) {
            Some(group) => GroupLookup::Found(group),
            None if self.cgroups.proc.join(pid.to_string()).exists() => GroupLookup::Hidden,
            None => GroupLookup::Ended,
        }
    }

    /// Resource usage of a cgroup, with its CPU rate. `None` if the cgroup is gone.
    pub(super) fn group(
        &self,
        id: &str,
        group: &Cgroup,
        requested_shares: i64,
        work: &mut ReadContext<'_>,
    ) -> Option<GroupReading> {
        let mut reading = group::read(group, requested_shares, work.options, &mut work.files);
        let whole = reading.cpu.is_some() && reading.memory.is_some();
        if !whole && !group.exists() {
            return None;
        }
        if let Some(cpu) = &mut reading.cpu {
            cpu.nano_cores = self.rates.next(id, cpu.usage, Instant::now());
        }
        Some(reading)
    }

    /// Discards the data of containers and pods that no longer run.
    pub(super) fn retain(
        &self,
        containers: &[Arc<ContainerRecord>],
        sandboxes: &[Arc<SandboxRecord>],
    ) {
        let containers = containers.iter().filter(|record| record.process.is_running());
        let mut ids: HashSet<&str> = containers.map(|record| record.id.as_str()).collect();
        self.layers.retain(&ids);
        let pauses = sandboxes.iter().filter(|record| record.pid().is_some());
        ids.extend(pauses.flat_map(|record| [record.id.as_str(), record.document.parent()]));
        self.cgroups.retain(|owner| ids.contains(owner));
        self.rates.retain(&ids);
    }

    pub(super) fn unknown(&self, record: &Arc<ContainerRecord>) -> ContainerReading {
        ContainerReading {
            record: Arc::clone(record),
            group: GroupReading::default(),
            processes: None,
            layer: self.layers.of(record.id.as_str()),
        }
    }
}

/// The current time, never [`Nanos::UNSET`].
pub(super) fn now() -> Nanos {
    Nanos(clock::nanos().max(1))
}

/// `MemTotal` of `/proc/meminfo` in bytes.
pub(super) fn machine_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
