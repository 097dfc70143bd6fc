//! Which figures the cgroups of this machine have, independent of any container.
//!
//! The topmost cgroup lacks files that all others have, and there may be no other cgroups of containers
//! yet. So for each controller, the first cgroup below the top that has its files is read.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
};

use super::{
    file::Files,
    group,
    paths::{CgroupPaths, Controller, ReadOptions},
};
use crate::{
    host::cgroup::Hierarchy,
    model::{
        stats::{
            CpuReading, DeviceReading, GroupReading, Limit, MemoryReading, PidsReading, SwapReading,
        },
        time::Nanos,
    },
};

/// The figures of such a cgroup. `top` is the topmost one. `kept` says whether there is a controller, for
/// controllers that no cgroup uses yet.
pub(in crate::stats) fn group(
    top: &CgroupPaths,
    options: &ReadOptions,
    kept: impl Fn(&str) -> bool,
    files: &mut Files,
) -> GroupReading {
    let mut reading = group::read(&lower(top, options), options, files);
    if let Some(cpu) = reading.cpu.as_mut().filter(|cpu| cpu.period.is_none() && kept("cpu")) {
        assume_quota(cpu);
    }
    if let Some(cpu) = reading.cpu.as_mut().filter(|cpu| cpu.quota.is_some()) {
        cpu.quota = Some(Limit::At(1));
    }
    if reading.memory.is_none() && kept("memory") {
        reading.memory = Some(usual_memory());
        reading.swap = Some(SwapReading::default());
    }
    if reading.pids.is_none() && kept("pids") {
        let limit = Some(Limit::Unlimited);
        reading.pids = Some(PidsReading { at: Nanos(1), tasks: 0, limit });
    }
    let disks = ["io", "blkio"].into_iter().any(kept);
    if let Some(io) = reading.io.as_mut().filter(|_| disks) {
        io.devices = vec![DeviceReading::default()];
    }
    reading
}

/// For each controller, a directory with the same files as a container's.
fn lower(top: &CgroupPaths, options: &ReadOptions) -> CgroupPaths {
    let pages = |file: &str| {
        let size = options.page_sizes.first();
        size.map(|size| format!("hugetlb.{size}.{file}")).unwrap_or_default()
    };
    let lower = |controller, hierarchy, place: &Path| {
        let file = match (controller, hierarchy) {
            (Controller::Cpuacct, Hierarchy::V1) => "cpuacct.usage",
            (Controller::Cpu, Hierarchy::V1) => "cpu.cfs_quota_us",
            (Controller::Cpuacct | Controller::Cpu, Hierarchy::V2) => "cpu.max",
            (Controller::Memory, Hierarchy::V1) => "memory.usage_in_bytes",
            (Controller::Memory, Hierarchy::V2) => "memory.current",
            (Controller::Blkio, Hierarchy::V1) => "blkio.throttle.io_service_bytes_recursive",
            (Controller::Blkio, Hierarchy::V2) => "io.stat",
            (Controller::Pids, _) => "pids.max",
            (Controller::Hugetlb, Hierarchy::V1) => &pages("usage_in_bytes"),
            (Controller::Hugetlb, Hierarchy::V2) => &pages("current"),
        };
        first_with(place, file).unwrap_or_else(|| place.to_owned())
    };
    let controllers = top.controllers.iter();
    let pressure = top.pressure.as_ref();
    CgroupPaths {
        controllers: controllers
            .map(|(one, (hierarchy, top))| (*one, (*hierarchy, lower(*one, *hierarchy, top))))
            .collect(),
        pressure: pressure
            .map(|top| first_with(top, "cpu.pressure").unwrap_or_else(|| top.clone())),
        machine_memory: top.machine_memory,
        ..CgroupPaths::default()
    }
}

/// The nearest directory at or below this one that has the file.
fn first_with(top: &Path, file: &str) -> Option<PathBuf> {
    let mut waiting = VecDeque::from([top.to_owned()]);
    for _ in 0..MOST_LOOKS {
        let place = waiting.pop_front()?;
        if place.join(file).exists() {
            return Some(place);
        }
        let below = fs::read_dir(&place).into_iter().flatten().flatten();
        let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        waiting.extend(folders.map(|entry| entry.path()).take(MOST_LOOKS));
    }
    None
}

fn assume_quota(cpu: &mut CpuReading) {
    cpu.quota = Some(Limit::Unlimited);
    (cpu.period, cpu.shares) = (Some(0), Some(0));
    (cpu.periods, cpu.throttled_periods, cpu.throttled) = (Some(0), Some(0), Some(0));
}

/// The figures of kernels with version 2's memory controller. The peak exists since 5.19.
fn usual_memory() -> MemoryReading {
    let (some, limit) = (Some(0), Some(Limit::Unlimited));
    MemoryReading {
        at: Nanos(1),
        rss: some,
        cache: some,
        active_file: some,
        inactive_file: some,
        mapped_file: some,
        kernel: some,
        peak: some,
        limit_hits: some,
        oom_kills: some,
        faults: some,
        major_faults: some,
        limit,
        swap_limit: limit,
        reserved: limit,
        ..MemoryReading::default()
    }
}

/// How many cgroups are searched for a file. The first ones that the system created have it.
const MOST_LOOKS: usize = 256;
