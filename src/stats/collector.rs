//! Reads containers, with data that is kept between readings: paths of cgroups, rates, sizes of layers, disks.

use std::{collections::HashSet, path::PathBuf, sync::Arc, time::Instant};

use tokio::sync::Semaphore;

use super::{
    cgroup_reader::{CgroupReader, GroupLookup},
    disks::DiskCache,
    layers::Layers,
    rates::Rates,
    read::{
        file::Files,
        paths::{CgroupPaths, ReadOptions},
        processes,
    },
};
use crate::{
    host::cgroup::Cgroups,
    model::{
        record::{ContainerRecord, SandboxRecord},
        stats::{ContainerReading, Detail, GroupReading},
    },
};

/// Data that is kept between readings. It only concerns running containers.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) proc: PathBuf,
    pub(super) groups: CgroupReader,
    pub(super) rates: Rates,
    pub(super) layers: Layers,
    pub(super) disks: DiskCache,
    /// Limits the threads that read at the same time.
    pub(super) threads: Arc<Semaphore>,
    /// Limits further threads for readings with all details, so that these do not delay the others.
    pub(super) thorough: Arc<Semaphore>,
}

/// What a thread needs for reading.
pub(super) struct ReadContext<'a> {
    pub(super) options: &'a ReadOptions,
    pub(super) files: Files,
}

impl Collector {
    /// Without any data. At most `threads` read at the same time, and as many more for readings with all
    /// details.
    pub(super) fn new(cgroups: Cgroups, threads: usize) -> Self {
        Self {
            proc: cgroups.proc.clone(),
            groups: CgroupReader::of(cgroups, &mut Files::default()),
            rates: Rates::default(),
            layers: Layers::default(),
            disks: DiskCache::default(),
            threads: Arc::new(Semaphore::new(threads)),
            thorough: Arc::new(Semaphore::new(threads)),
        }
    }

    /// Resource usage of a container. None if it ended.
    pub(super) fn container(
        &self,
        record: &Arc<ContainerRecord>,
        work: &mut ReadContext<'_>,
    ) -> Option<ContainerReading> {
        let blank = self.blank(record);
        let Some(pid) = record.process.pid() else { return Some(blank) };
        let id = record.id.as_str();
        let mut places = match self.groups.find(id, pid) {
            GroupLookup::Found(places) => places,
            GroupLookup::Hidden => return Some(blank),
            GroupLookup::Ended => return None,
        };
        places.requested_shares = record.limits.cpu_shares;
        let group = self.group(id, &places, work)?;
        let processes = match work.options.detail {
            Detail::Usage => None,
            Detail::Everything => {
                let pids = places.processes(&mut work.files);
                Some(processes::read(&self.proc, pid, &pids, &group, &mut work.files))
            }
        };
        Some(ContainerReading { group, processes, ..blank })
    }

    /// Resource usage of a cgroup, with its rate. None if it is gone.
    pub(super) fn group(
        &self,
        id: &str,
        places: &CgroupPaths,
        work: &mut ReadContext<'_>,
    ) -> Option<GroupReading> {
        let mut group = CgroupReader::read(places, work.options, &mut work.files)?;
        if let Some(cpu) = &mut group.cpu {
            cpu.nano_cores = self.rates.next(id, cpu.usage, Instant::now());
        }
        Some(group)
    }

    /// Forgets everything that no longer runs.
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
        self.groups.cgroups.retain(|owner| ids.contains(owner));
        self.rates.retain(&ids);
    }

    pub(super) fn blank(&self, record: &Arc<ContainerRecord>) -> ContainerReading {
        ContainerReading {
            record: Arc::clone(record),
            group: GroupReading::default(),
            processes: None,
            layer: self.layers.of(record.id.as_str()),
        }
    }
}
