//! How often the kernel killed in a control group for lack of memory.

use std::path::Path;

use super::read;

/// Processes killed in the group and in those below it, those included that are gone; none where
/// that is not counted so, as on version 1. One small file.
pub fn kills(directory: &Path) -> Option<u64> {
    let events = read(directory, "memory.events").ok()?;
    events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}
