//! Reads memory and swap of a cgroup.

use std::path::Path;

use super::{
    file::Files,
    group_files::GroupFiles,
    text::{fill, flat},
};
use crate::{
    host::cgroup::{Hierarchy, working_set::working_set},
    model::{
        stats::{Limit, MemoryReading, SwapReading},
        time::Nanos,
    },
};

/// The memory and swap usage. `None` if the cgroup is gone, or the kernel does not count its memory.
pub(super) fn read(files: &mut GroupFiles<'_>) -> Option<(MemoryReading, Option<SwapReading>)> {
    let (hierarchy, place) = files.directory("memory")?;
    let (usage, limit) = match hierarchy {
        Hierarchy::V1 => ("memory.usage_in_bytes", "memory.limit_in_bytes"),
        Hierarchy::V2 => ("memory.current", "memory.max"),
    };
    let usage = files.count(place, usage)?;
    let at = (files.options.now)();
    let stat = match hierarchy {
        Hierarchy::V1 => v1(files.text(place, "memory.stat")?),
        Hierarchy::V2 => v2(files.text(place, "memory.stat")?),
    };
    let limit = files.limit(place, limit);
    let working_set = working_set(usage, stat.reading.inactive_file);
    let stated = limit.and_then(Limit::value);
    let below_machine = stated.filter(|limit| *limit < files.options.machine_memory);
    let mut reading = MemoryReading {
        at,
        usage,
        working_set,
        available: below_machine.map(|limit| limit.saturating_sub(working_set)),
        limit,
        ..stat.reading
    };
    let swap = match hierarchy {
        Hierarchy::V2 => v2_swap(place, &mut reading, files),
        Hierarchy::V1 => v1_swap(stat.swap, &mut reading, place, files),
    };
    if files.is_detailed() {
        details(hierarchy, place, &mut reading, files.uncached);
    }
    reading.pressure = files.pressure("memory.pressure");
    Some((reading, swap.map(|swap| SwapReading { at, ..swap })))
}

/// Figures from `memory.stat`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stat {
    pub(super) reading: MemoryReading,
    /// Swap usage, which only `memory.stat` of cgroup v1 has, and only if the kernel counts swap.
    pub(super) swap: Option<u64>,
}

/// Parses `memory.stat` of cgroup v1. Fields `total_…` include the cgroups below. `pgfault` and `pgmajfault` do not.
pub(super) fn v1(text: &str) -> Stat {
    let mut stat = Stat::default();
    let reading = &mut stat.reading;
    let fields = &mut [
        ("total_rss", &mut reading.rss),
        ("total_cache", &mut reading.cache),
        ("total_mapped_file", &mut reading.mapped_file),
        ("total_active_file", &mut reading.active_file),
        ("total_inactive_file", &mut reading.inactive_file),
        ("total_pgfault", &mut reading.faults),
        ("total_pgmajfault", &mut reading.major_faults),
        ("pgfault", &mut reading.own_faults),
        ("pgmajfault", &mut reading.own_major_faults),
        ("total_swap", &mut stat.swap),
    ];
    fill(text, 1, fields);
    stat
}

/// Parses `memory.stat` of cgroup v2, in which all values include the cgroups below.
pub(super) fn v2(text: &str) -> Stat {
    let mut stat = Stat::default();
    let reading = &mut stat.reading;
    let (mut stacks, mut slab) = (None, None);
    let fields = &mut [
        ("anon", &mut reading.rss),
        ("file", &mut reading.cache),
        ("file_mapped", &mut reading.mapped_file),
        ("active_file", &mut reading.active_file),
        ("inactive_file", &mut reading.inactive_file),
        ("pgfault", &mut reading.faults),
        ("pgmajfault", &mut reading.major_faults),
        ("kernel", &mut reading.kernel),
        ("kernel_stack", &mut stacks),
        ("slab", &mut slab),
    ];
    fill(text, 1, fields);
    // Kernels before 5.18 do not report `kernel`, so this adds two of its parts.
    let parts = stacks.zip(slab).map(|(stacks, slab)| slab.saturating_add(stacks));
    reading.kernel = reading.kernel.or(parts);
    stat
}

/// Parses `memory.events` of cgroup v2.
pub(super) fn events(text: &str, reading: &mut MemoryReading) {
    let fields = &mut [("max", &mut reading.limit_hits), ("oom_kill", &mut reading.oom_kills)];
    fill(text, 1, fields);
}

/// The number of OOM kills in `memory.oom_control` of cgroup v1, which has it since Linux 4.13.
pub(super) fn oom_control(text: &str) -> Option<u64> {
    flat(text).find(|(name, _)| *name == "oom_kill").map(|(_, value)| value)
}

fn v2_swap(
    place: &Path,
    reading: &mut MemoryReading,
    files: &mut GroupFiles<'_>,
) -> Option<SwapReading> {
    let usage = files.count(place, "memory.swap.current")?;
    let limit = files.limit(place, "memory.swap.max");
    reading.swap_limit = reading.limit.zip(limit).map(|both| match both {
        (Limit::At(memory), Limit::At(swap)) => Limit::At(memory.saturating_add(swap)),
        _ => Limit::Unlimited,
    });
    let left = |limit: u64| limit.saturating_sub(usage);
    let available = limit.and_then(Limit::value).map(left);
    Some(SwapReading { usage, available, at: Nanos::UNSET })
}

/// Swap usage in cgroup v1, whose limit for swap applies to memory and swap together.
fn v1_swap(
    usage: Option<u64>,
    reading: &mut MemoryReading,
    place: &Path,
    files: &mut GroupFiles<'_>,
) -> Option<SwapReading> {
    let usage = usage?;
    reading.swap_limit = files.limit(place, "memory.memsw.limit_in_bytes");
    let [both, memory] = [reading.swap_limit, reading.limit].map(|limit| limit?.value());
    let limit = both.zip(memory);
    let left = |(both, memory): (u64, u64)| both.saturating_sub(memory).saturating_sub(usage);
    Some(SwapReading { usage, available: limit.map(left), at: Nanos::UNSET })
}

fn details(hierarchy: Hierarchy, place: &Path, reading: &mut MemoryReading, files: &mut Files) {
    match hierarchy {
        Hierarchy::V2 => {
            reading.peak = files.count(place, "memory.peak");
            reading.reserved = files.limit(place, "memory.min");
            if let Some(text) = files.text(place, "memory.events") {
                events(text, reading);
            }
        }
        Hierarchy::V1 => {
            reading.peak = files.count(place, "memory.max_usage_in_bytes");
            reading.reserved = files.limit(place, "memory.soft_limit_in_bytes");
            reading.limit_hits = files.count(place, "memory.failcnt");
            reading.kernel = files.count(place, "memory.kmem.usage_in_bytes");
            reading.oom_kills = files.text(place, "memory.oom_control").and_then(oom_control);
        }
    }
}
