//! The number of OOM kills in a cgroup.

use std::path::Path;

use super::read;

/// The OOM kills in the cgroup and in all cgroups that are or were below it. None on cgroup v1, or without a cgroup.
pub fn kills(directory: &Path) -> Option<u64> {
    let events = read(directory, "memory.events").ok()?;
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}
