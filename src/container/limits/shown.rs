//! What a running container is held to, told so that kubelet recognises what it asked for.
//!
//! The kernel rounds: memory to pages, shares of the CPU to weights, lists of CPUs to ranges. A
//! resize is over for kubelet only when it reads back the numbers it sent, so where the kernel's
//! value is what becomes of the wish, the wish is shown; where it is not, the kernel's value.

use std::collections::BTreeSet;

use crate::{
    host::cgroup::{
        limits::{Limits, UNLIMITED},
        weight::CpuWeight,
    },
    model::resources::{HugepageLimit, Resources},
    translate::plan::cgroup_files::{CgroupFile, CgroupLimit},
};

/// The limits in force; `current` reads a file that is there.
pub(super) fn shown(
    wished: &Resources,
    kernel: &Limits,
    settings: &[CgroupFile],
    current: impl Fn(&CgroupFile) -> Option<String>,
) -> Resources {
    let mut shown = Resources {
        cpu_period: period(wished, kernel),
        cpu_quota: bounded(wished.cpu_quota, kernel.cpu_quota, 0),
        cpu_shares: shares(wished.cpu_shares, kernel.cpu_weight),
        memory_limit: bounded(wished.memory_limit, kernel.memory, ROUNDING).max(0),
        memory_swap_limit: bounded(wished.memory_swap_limit, kernel.memory_and_swap, ROUNDING),
        oom_score_adj: kernel.oom_score_adj.unwrap_or(wished.oom_score_adj),
        cpuset_cpus: list(&wished.cpuset_cpus, kernel.cpus.as_deref()),
        cpuset_mems: list(&wished.cpuset_mems, kernel.mems.as_deref()),
        hugepage_limits: Vec::new(),
        unified: wished.unified.clone(),
    };
    for setting in settings {
        let now = current(setting);
        match &setting.limit {
            CgroupLimit::Hugepages(size) => {
                let limit = pages(setting, size, now.as_deref());
                let shown = &mut shown.hugepage_limits;
                shown.extend(limit.map(|limit| HugepageLimit { page_size: size.clone(), limit }));
            }
            CgroupLimit::Unified(key) => match now {
                Some(now) => drop(shown.unified.insert(key.clone(), text(&setting.value, now))),
                None => drop(shown.unified.remove(key)),
            },
            CgroupLimit::HugepageReservations(_) => {}
        }
    }
    shown
}

/// A number of the kernel's, or the wish that became it by losing less than `rounding`. No limit
/// is shown as such only where one was spoken of.
fn bounded(wished: i64, kernel: Option<i64>, rounding: i64) -> i64 {
    match kernel {
        None => wished,
        Some(UNLIMITED) if wished == 0 => 0,
        Some(UNLIMITED) => UNLIMITED,
        Some(held)
            if wished > held && wished.saturating_sub(held) < rounding && held % PAGE == 0 =>
        {
            wished
        }
        Some(held) => held,
    }
}

/// The kernel has a period also where nothing is limited by it.
fn period(wished: &Resources, kernel: &Limits) -> i64 {
    match kernel.cpu_period {
        Some(period) if wished.cpu_period != 0 || kernel.cpu_quota != Some(UNLIMITED) => period,
        _ => wished.cpu_period,
    }
}

/// The wish where the kernel holds what runtimes make of it.
fn shares(wished: i64, kernel: Option<CpuWeight>) -> i64 {
    match kernel {
        Some(held) if wished == 0 || !held.is_made_of(wished) => held.shares(),
        _ => wished,
    }
}

/// A list that was wished for; what everybody may use is no limit.
fn list(wished: &str, kernel: Option<&str>) -> String {
    match kernel {
        Some(kernel) if !wished.is_empty() && members(kernel) != members(wished) => {
            kernel.to_owned()
        }
        _ => wished.to_owned(),
    }
}

/// The members of a list like `0-3,8`.
fn members(list: &str) -> BTreeSet<u32> {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
        .flat_map(|range: std::ops::RangeInclusive<u32>| range.take(MOST_CPUS))
        .collect()
}

/// Huge pages in bytes; none where they are not limited although they should be.
fn pages(setting: &CgroupFile, size: &str, now: Option<&str>) -> Option<u64> {
    let wished: u64 = setting.value.parse().ok()?;
    let Some(now) = now else { return (wished == 0).then_some(0) };
    let held: u64 = now.parse().unwrap_or(u64::MAX);
    let lost = wished.checked_sub(held);
    Some(if lost.is_some_and(|lost| lost < page_bytes(size)) { wished } else { held })
}

fn page_bytes(size: &str) -> u64 {
    let units = [("KB", 10), ("MB", 20), ("GB", 30)];
    let read = |(unit, shift): (&str, u32)| {
        let number: u64 = size.strip_suffix(unit)?.parse().ok()?;
        number.checked_shl(shift)
    };
    units.into_iter().find_map(read).unwrap_or(0)
}

/// The text of a file, or the wish that the kernel rounded to it.
pub(super) fn text(wished: &str, now: String) -> String {
    match (wished.parse(), now.parse()) {
        (Ok(number), Ok(held)) if bounded(number, Some(held), ROUNDING) == number => {
            wished.to_owned()
        }
        _ => now,
    }
}

/// Memory and swap are each rounded down to pages of at most half of this.
const ROUNDING: i64 = 128 << 10;
/// The smallest page there is.
const PAGE: i64 = 4096;
/// More than any kernel is built for.
const MOST_CPUS: usize = 1 << 13;
