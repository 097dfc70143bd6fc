//! Limits of a container, as CRI states them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `LinuxContainerResources` of CRI: zero and empty mean "not set".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CFS period in microseconds.
    pub cpu_period: i64,
    /// CFS quota in microseconds; -1 is unlimited.
    pub cpu_quota: i64,
    /// Relative CPU weight (cgroup v1 scale).
    pub cpu_shares: i64,
    /// Memory limit in bytes.
    pub memory_limit: i64,
    /// Memory plus swap limit in bytes; -1 is unlimited.
    pub memory_swap_limit: i64,
    /// OOM score adjustment, -1000..=1000.
    pub oom_score_adj: i64,
    /// CPUs, in the kernel's list format.
    pub cpuset_cpus: String,
    /// Memory nodes, in the kernel's list format.
    pub cpuset_mems: String,
    /// Huge page limits: page size as the kernel names it → bytes.
    pub hugepage_limits: Vec<HugepageLimit>,
    /// cgroup v2 keys the caller wants verbatim.
    pub unified: BTreeMap<String, String>,
}

/// One `HugepageLimit` of CRI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugepageLimit {
    /// Page size, e.g. `2MB`.
    pub page_size: String,
    /// Limit in bytes.
    pub limit: u64,
}
