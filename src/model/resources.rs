//! Limits of a container in the units of CRI.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// `LinuxContainerResources` of CRI, and limits of NRI that CRI lacks. Zero and empty mean "not set".
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CFS period in microseconds.
    pub cpu_period: i64,
    /// CFS quota in microseconds; -1 is unlimited.
    pub cpu_quota: i64,
    /// Relative CPU weight (cgroup v1 scale).
    pub cpu_shares: i64,
    /// Memory limit in bytes; -1 is unlimited.
    pub memory_limit: i64,
    /// Limit for memory and swap together, in bytes; -1 is unlimited.
    pub memory_swap_limit: i64,
    /// -1000 to 1000.
    pub oom_score_adj: i64,
    /// CPUs that the container may use, in the kernel's list format (`0-3,8`).
    pub cpuset_cpus: String,
    pub cpuset_mems: String,
    pub hugepage_limits: Vec<HugepageLimit>,
    /// cgroup v2 files and their values.
    pub unified: BTreeMap<String, String>,
    /// Limit for processes and threads together; -1 is unlimited. Not in CRI.
    #[serde(skip_serializing_if = "is_unset")]
    pub pids_limit: i64,
    /// The kernel reclaims this many bytes of the container's memory last. Not in CRI.
    #[serde(skip_serializing_if = "is_unset")]
    pub memory_reservation: i64,
}

/// The pod-level resources that kubelet sent last. kubelet manages the pod's cgroup itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodResources {
    /// Overhead of the pod, in addition to its containers.
    pub overhead: Option<Resources>,
    pub resources: Option<Resources>,
}

/// One `HugepageLimit` of CRI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugepageLimit {
    pub page_size: String,
    pub limit: u64,
}

impl fmt::Debug for Resources {
    /// Prints the JSON that labels store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resources {}", serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Resources {
    /// `self` with every limit that `newer` sets. If `newer` sets a memory limit in bytes but no swap limit, and
    /// `self` has both limits in bytes, the container keeps its amount of swap.
    pub fn updated(&self, newer: &Self) -> Self {
        let mut unified = self.unified.clone();
        if newer.memory_swap_limit != 0 {
            unified.remove(SWAP_MAX);
        }
        unified.extend(newer.unified.clone());
        Self {
            cpu_period: if_set(newer.cpu_period).unwrap_or(self.cpu_period),
            cpu_quota: if_set(newer.cpu_quota).unwrap_or(self.cpu_quota),
            cpu_shares: if_set(newer.cpu_shares).unwrap_or(self.cpu_shares),
            memory_limit: if_set(newer.memory_limit).unwrap_or(self.memory_limit),
            memory_swap_limit: self.updated_swap(newer),
            oom_score_adj: if_set(newer.oom_score_adj).unwrap_or(self.oom_score_adj),
            cpuset_cpus: first_set(&newer.cpuset_cpus, &self.cpuset_cpus),
            cpuset_mems: first_set(&newer.cpuset_mems, &self.cpuset_mems),
            hugepage_limits: self.hugepages_with(&newer.hugepage_limits),
            unified,
            pids_limit: if_set(newer.pids_limit).unwrap_or(self.pids_limit),
            memory_reservation: if_set(newer.memory_reservation).unwrap_or(self.memory_reservation),
        }
    }

    /// The limits that the engine reports, and from `self` the limits that the engine does not store or cannot update.
    pub fn with_observed(&self, engine: &Self) -> Self {
        Self {
            oom_score_adj: self.oom_score_adj,
            hugepage_limits: self.hugepage_limits.clone(),
            unified: self.unified.clone(),
            ..engine.clone()
        }
    }

    /// The limit for memory and swap together after an update with `newer`; 0 if it is not set.
    fn updated_swap(&self, newer: &Self) -> i64 {
        let (before, together) = (self.memory_limit, self.memory_swap_limit);
        match (newer.memory_swap_limit, newer.memory_limit) {
            (0, _) if newer.unified.contains_key(SWAP_MAX) => 0,
            (0, 0) => together,
            (0, UNLIMITED) => UNLIMITED,
            (0, memory) if before > 0 && together >= before => {
                memory.saturating_add(together.saturating_sub(before))
            }
            // If the memory limit was also unlimited, swap was unlimited only because memory was.
            (0, _) if together == UNLIMITED && before != UNLIMITED => UNLIMITED,
            (stated, _) => stated,
        }
    }

    fn hugepages_with(&self, newer: &[HugepageLimit]) -> Vec<HugepageLimit> {
        let replaced =
            |old: &&HugepageLimit| !newer.iter().any(|new| new.page_size == old.page_size);
        self.hugepage_limits.iter().filter(replaced).chain(newer).cloned().collect()
    }
}

/// None if `value` is zero, which means "not set".
pub fn if_set(value: i64) -> Option<i64> {
    (value != 0).then_some(value)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_unset(value: &i64) -> bool {
    *value == 0
}

/// The newer text, or the older if the newer is empty.
pub fn first_set(newer: &str, older: &str) -> String {
    if newer.is_empty() { older.to_owned() } else { newer.to_owned() }
}

/// A limit with this value means that there is no limit.
pub const UNLIMITED: i64 = -1;
/// The kernel's largest memory limit in bytes. dockbridge sends this limit to the engine for an unlimited
/// memory limit, because the engine refuses -1 as too small.
pub const ALL_MEMORY: i64 = i64::MAX - 0xfff;
/// The cgroup v2 file that limits swap without memory.
pub const SWAP_MAX: &str = "memory.swap.max";
