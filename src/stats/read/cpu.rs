//! Reads the processor time of a cgroup.

use std::path::Path;

use super::{
    file::Files,
    group_files::GroupFiles,
    text::{count, fill, limit},
};
use crate::{
    host::cgroup::{Hierarchy, weight::CpuWeight},
    model::stats::CpuReading,
};

/// `None` if the cgroup is gone, or the kernel does not count its processor time.
pub(super) fn read(requested_shares: i64, files: &mut GroupFiles<'_>) -> Option<CpuReading> {
    let (hierarchy, place) = files.directory("cpuacct")?;
    let mut reading = match hierarchy {
        Hierarchy::V2 => v2(files.text(place, "cpu.stat")?)?,
        Hierarchy::V1 => {
            let usage = files.count(place, "cpuacct.usage")?;
            CpuReading { usage, ..CpuReading::default() }
        }
    };
    reading.at = (files.options.now)();
    if files.is_detailed() {
        let limits = files.directory("cpu");
        let files = &mut *files.uncached;
        if hierarchy == Hierarchy::V1
            && let Some(text) = files.text(place, "cpuacct.stat")
        {
            modes(text, &mut reading);
        }
        match limits {
            Some((Hierarchy::V1, place)) => v1_limits(place, hierarchy, &mut reading, files),
            Some((Hierarchy::V2, place)) if hierarchy == Hierarchy::V2 => {
                v2_limits(place, requested_shares, &mut reading, files);
            }
            _ => {}
        }
    }
    reading.pressure = files.pressure("cpu.pressure");
    Some(reading)
}

/// Parses `cpu.stat` of cgroup v2, which has microseconds.
pub(super) fn v2(text: &str) -> Option<CpuReading> {
    let (mut reading, mut usage) = (CpuReading::default(), None);
    let times = &mut [
        ("usage_usec", &mut usage),
        ("user_usec", &mut reading.user),
        ("system_usec", &mut reading.system),
        ("throttled_usec", &mut reading.throttled),
    ];
    fill(text, MICRO, times);
    let counts = &mut [
        ("nr_periods", &mut reading.periods),
        ("nr_throttled", &mut reading.throttled_periods),
    ];
    fill(text, 1, counts);
    reading.usage = usage?;
    Some(reading)
}

/// Parses `cpuacct.stat` of cgroup v1, which has hundredths of a second, whatever the kernel's own tick is.
pub(super) fn modes(text: &str, reading: &mut CpuReading) {
    fill(text, TICK, &mut [("user", &mut reading.user), ("system", &mut reading.system)]);
}

/// Parses `cpu.stat` of cgroup v1, which has nanoseconds.
pub(super) fn throttling(text: &str, reading: &mut CpuReading) {
    let fields = &mut [
        ("nr_periods", &mut reading.periods),
        ("nr_throttled", &mut reading.throttled_periods),
        ("throttled_time", &mut reading.throttled),
    ];
    fill(text, 1, fields);
}

fn v1_limits(place: &Path, usage: Hierarchy, reading: &mut CpuReading, files: &mut Files) {
    if usage == Hierarchy::V1
        && let Some(text) = files.text(place, "cpu.stat")
    {
        throttling(text, reading);
    }
    reading.quota = files.limit(place, "cpu.cfs_quota_us");
    reading.period = files.count(place, "cpu.cfs_period_us");
    reading.shares = files.count(place, "cpu.shares");
}

fn v2_limits(place: &Path, requested_shares: i64, reading: &mut CpuReading, files: &mut Files) {
    let both = files.text(place, "cpu.max").and_then(|text| text.trim().split_once(' '));
    if let Some((quota, period)) = both {
        (reading.quota, reading.period) = (limit(quota), count(period));
    }
    let weight = files.count(place, "cpu.weight").and_then(|weight| i64::try_from(weight).ok());
    let shares = weight.map(|weight| CpuWeight::Weight(weight).shares(requested_shares));
    reading.shares = shares.and_then(|shares| u64::try_from(shares).ok());
}

const MICRO: u64 = 1000;
/// Nanoseconds of a tick in `cpuacct.stat`: `USER_HZ` is 100 on every architecture that Docker supports.
const TICK: u64 = 10_000_000;
