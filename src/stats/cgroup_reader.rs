//! Finds the cgroups of containers and reads their figures.

use super::read::{
    file::Files,
    group,
    paths::{CgroupPaths, ReadOptions},
};
use crate::{
    host::{cgroup::Cgroups, clock},
    model::{
        stats::{Detail, GroupReading},
        time::Nanos,
    },
};

#[derive(Debug)]
pub(super) struct CgroupReader {
    pub(super) cgroups: Cgroups,
    machine_memory: u64,
}

/// The result of the search for a cgroup.
#[derive(Debug)]
pub(super) enum GroupLookup {
    Found(Box<CgroupPaths>),
    /// The process runs, but no cgroup of its container is visible.
    Hidden,
    Ended,
}

impl CgroupReader {
    /// For a machine with this much memory.
    pub(super) fn of(cgroups: Cgroups, files: &mut Files) -> Self {
        let memory = files.text(&cgroups.proc, "meminfo").and_then(total);
        Self { cgroups, machine_memory: memory.unwrap_or(u64::MAX) }
    }

    /// The cgroup of the container `id`, whose main process is `pid`.
    pub(super) fn find(&self, id: &str, pid: u32) -> GroupLookup {
        let known = self.cgroups.cached(pid, id);
        let Some(group) = known.or_else(|| self.cgroups.find(pid, id).ok()) else {
            let runs = self.cgroups.proc.join(pid.to_string()).exists();
            return if runs { GroupLookup::Hidden } else { GroupLookup::Ended };
        };
        GroupLookup::Found(Box::new(CgroupPaths::of(&group, self.machine_memory)))
    }

    /// Reads a cgroup. None if it ended.
    pub(super) fn read(
        places: &CgroupPaths,
        options: &ReadOptions,
        files: &mut Files,
    ) -> Option<GroupReading> {
        let reading = group::read(places, options, files);
        let whole = reading.cpu.is_some() && reading.memory.is_some();
        (whole || places.exists()).then_some(reading)
    }
}

pub(super) fn read_options(detail: Detail) -> ReadOptions {
    let page_sizes = match detail {
        Detail::Usage => Vec::new(),
        Detail::Everything => crate::host::cgroup::hugetlb::page_sizes(),
    };
    ReadOptions { detail, page_sizes, now }
}

/// The current time, which is never unset.
pub(super) fn now() -> Nanos {
    Nanos(clock::nanos().max(1))
}

/// `MemTotal` of `/proc/meminfo` in bytes.
pub(super) fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
