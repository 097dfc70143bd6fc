//! The working set: the memory usage of a cgroup by which kubelet evicts pods.

use super::{Cgroup, Hierarchy};

/// The working set as kubelet and cAdvisor define it: usage without the inactive page cache (`inactive_file`).
pub fn working_set(usage: u64, inactive_file: Option<u64>) -> u64 {
    usage.saturating_sub(inactive_file.unwrap_or(0))
}

impl Cgroup {
    /// The working set in bytes, see [`working_set`].
    pub fn working_set(&self) -> Option<i64> {
        let (usage, inactive) = match self.directory("memory")?.0 {
            Hierarchy::V1 => ("memory.usage_in_bytes", "total_inactive_file"),
            Hierarchy::V2 => ("memory.current", "inactive_file"),
        };
        let usage = self.text("memory", usage)?.parse().ok()?;
        let stat = self.text("memory", "memory.stat")?;
        let inactive =
            stat.lines().find_map(|line| line.strip_prefix(inactive)?.trim().parse().ok());
        i64::try_from(working_set(usage, inactive)).ok()
    }
}
