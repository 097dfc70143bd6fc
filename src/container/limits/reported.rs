//! The limits of a running container, in the form in which kubelet requested them.
//!
//! The kernel's values can differ from the requested values: the kernel rounds memory to pages and writes lists of CPUs
//! as ranges, and OCI runtimes convert CPU shares to weights. For kubelet a resize is complete only when the status has
//! the values that kubelet requested. So if the kernel's value may result from the requested value, the status shows
//! the requested value, otherwise the kernel's value.

use std::collections::BTreeSet;

use crate::{
    host::cgroup::limits::{Limits, UNLIMITED},
    model::resources::Resources,
    translate::limits::cgroup_files::{CgroupFile, CgroupLimit},
};

/// The current limits. `current` reads a cgroup file.
pub(super) fn reported(
    requested: &Resources,
    kernel: &Limits,
    settings: &[CgroupFile],
    current: impl Fn(&CgroupFile) -> Option<String>,
) -> Resources {
    let mut reported = Resources {
        cpu_period: period(requested, kernel),
        cpu_quota: bounded(requested.cpu_quota, kernel.cpu_quota, 0),
        cpu_shares: kernel
            .cpu_weight
            .map_or(requested.cpu_shares, |held| held.shares(requested.cpu_shares)),
        memory_limit: bounded(requested.memory_limit, kernel.memory, ROUNDING).max(0),
        memory_swap_limit: bounded(requested.memory_swap_limit, kernel.memory_and_swap, ROUNDING),
        oom_score_adj: kernel.oom_score_adj.unwrap_or(requested.oom_score_adj),
        cpuset_cpus: list(&requested.cpuset_cpus, kernel.cpus.as_deref()),
        cpuset_mems: list(&requested.cpuset_mems, kernel.mems.as_deref()),
        ..requested.clone()
    };
    for setting in settings {
        let now = current(setting);
        let now = match &setting.limit {
            CgroupLimit::Hugepages(size) => {
                hugepage_limit(setting, size, now.as_deref()).map(|bytes| bytes.to_string())
            }
            _ => now.map(|now| text(setting, now)),
        };
        setting.update_status(&mut reported, now);
    }
    reported
}

/// The requested number if the kernel's number is unknown or may result from rounding the requested number down,
/// otherwise the kernel's number. Returns 0 instead of `UNLIMITED` if nothing was requested.
fn bounded(requested: i64, kernel: Option<i64>, rounding: i64) -> i64 {
    match kernel {
        None => requested,
        Some(UNLIMITED) if requested == 0 => 0,
        Some(UNLIMITED) => UNLIMITED,
        Some(held)
            if requested > held
                && requested.saturating_sub(held) < rounding
                && held % PAGE == 0 =>
        {
            requested
        }
        Some(held) => held,
    }
}

/// Ignores the kernel's period if no period is requested and the kernel has no quota.
fn period(requested: &Resources, kernel: &Limits) -> i64 {
    match kernel.cpu_period {
        Some(period) if requested.cpu_period != 0 || kernel.cpu_quota != Some(UNLIMITED) => period,
        _ => requested.cpu_period,
    }
}

/// The list of CPUs or memory nodes; empty if none was requested, because a list of all CPUs is not a limit.
fn list(requested: &str, kernel: Option<&str>) -> String {
    match kernel {
        Some(kernel) if !requested.is_empty() && members(kernel) != members(requested) => {
            kernel.to_owned()
        }
        _ => requested.to_owned(),
    }
}

fn members(list: &str) -> BTreeSet<u32> {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
        .flat_map(|range: std::ops::RangeInclusive<u32>| range.take(MOST_CPUS))
        .collect()
}

/// The limit of huge pages in bytes; `u64::MAX` for `max`. None if the kernel does not have the file, unless the
/// requested limit is 0.
fn hugepage_limit(setting: &CgroupFile, size: &str, now: Option<&str>) -> Option<u64> {
    let requested: u64 = setting.value.parse().ok()?;
    let Some(now) = now else { return (requested == 0).then_some(0) };
    let held: u64 = now.parse().unwrap_or(u64::MAX);
    let lost = requested.checked_sub(held);
    Some(if lost.is_some_and(|lost| lost < page_bytes(size)) { requested } else { held })
}

fn page_bytes(size: &str) -> u64 {
    let units = [("KB", 10), ("MB", 20), ("GB", 30)];
    let read = |(unit, shift): (&str, u32)| {
        let number: u64 = size.strip_suffix(unit)?.parse().ok()?;
        number.checked_shl(shift)
    };
    units.into_iter().find_map(read).unwrap_or(0)
}

/// The requested value of a memory file, if the kernel may have rounded it down to `now`. Otherwise returns `now`.
pub(super) fn text(setting: &CgroupFile, now: String) -> String {
    let is_of_memory = setting.file.starts_with("memory.");
    match (setting.value.parse(), now.parse()) {
        // Some memory files are switches with the values 0 and 1, where 0 does not result from rounding 1.
        (Ok(number), Ok(held))
            if is_of_memory && held > 0 && bounded(number, Some(held), LARGEST_PAGE) == number =>
        {
            setting.value.clone()
        }
        _ => now,
    }
}

/// The kernel rounds memory and swap separately down to pages, so their sum can lose two pages.
const ROUNDING: i64 = 2 * LARGEST_PAGE;
/// The smallest memory page of all supported machines, in bytes.
const PAGE: i64 = 4096;
const LARGEST_PAGE: i64 = 64 << 10;
/// The most CPUs that a kernel supports (`NR_CPUS` of x86_64).
const MOST_CPUS: usize = 1 << 13;
