//! The number of OOM kills in a cgroup.

use std::path::Path;

use super::read;

/// OOM kills in the cgroup and those below it, including removed ones. None on cgroup v1, which does not
/// count them in this way. Reads one small file.
pub fn kills(directory: &Path) -> Option<u64> {
    let events = read(directory, "memory.events").ok()?;
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}
