//! An entry point of `make fuzz`: current limits, in the form in which the kernel shows them.

use super::reported::reported;
use crate::{
    fuzz_input::texts,
    host::cgroup::{limits::Limits, weight::CpuWeight},
    model::resources::Resources,
    translate::limits::cgroup_files::{CgroupFile, CgroupLimit},
};

/// `bytes` are texts separated by NULs: first six requested numbers, then six numbers of the kernel, then other texts.
pub(crate) fn shown_limits(bytes: &[u8]) {
    let mut words = texts(bytes);
    let mut word = || words.next().unwrap_or_default().to_owned();
    let number = |text: String| text.trim().parse::<i64>();
    let numbers = [(); 12].map(|()| number(word()).ok());
    let [period, quota, shares, memory, swap, score, rest @ ..] = numbers;
    let [held_period, held_quota, held_shares, held_memory, held_swap, held_score] = rest;
    let requested = Resources {
        cpu_period: period.unwrap_or_default(),
        cpu_quota: quota.unwrap_or_default(),
        cpu_shares: shares.unwrap_or_default(),
        memory_limit: memory.unwrap_or_default(),
        memory_swap_limit: swap.unwrap_or_default(),
        oom_score_adj: score.unwrap_or_default(),
        cpuset_cpus: word(),
        cpuset_mems: word(),
        ..Resources::default()
    };
    #[allow(clippy::needless_update, reason = "a limit that is added later is not set here")]
    let kernel = Limits {
        cpu_period: held_period,
        cpu_quota: held_quota,
        cpu_weight: held_shares.map(if bytes.len().is_multiple_of(2) {
            CpuWeight::Shares
        } else {
            CpuWeight::Weight
        }),
        memory: held_memory,
        memory_and_swap: held_swap,
        cpus: Some(word()),
        mems: Some(word()),
        oom_score_adj: held_score,
        ..Limits::default()
    };
    let (size, pages, high) = (word(), word(), word());
    let unified = CgroupFile::unified("memory.high", &high);
    let limit = CgroupLimit::Hugepages(size);
    let pages = CgroupFile { limit, value: pages, ..unified.clone() };
    let settings = [pages, unified];
    let now = word();
    let first = reported(&requested, &kernel, &settings, |_| Some(now.clone()));
    assert!(first.memory_limit >= 0);
    let again = reported(&first, &kernel, &settings, |_| Some(now.clone()));
    assert_eq!(first, again, "what is shown is shown again");
}
