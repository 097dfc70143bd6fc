//! Reads the tasks and huge pages of a cgroup.

use super::group_files::GroupFiles;
use crate::{
    host::cgroup::Hierarchy,
    model::stats::{HugepageReading, PidsReading},
};

/// The number of tasks, and their limit in a detailed reading. `None` if the cgroup or the kernel's count is missing.
pub(super) fn tasks(files: &mut GroupFiles<'_>) -> Option<PidsReading> {
    let (_, place) = files.directory("pids")?;
    let tasks = files.count(place, "pids.current")?;
    let at = (files.options.now)();
    let limit = if files.is_detailed() { files.uncached.limit(place, "pids.max") } else { None };
    Some(PidsReading { at, tasks, limit })
}

/// The usage of huge pages of each requested size, without sizes that the kernel does not count.
pub(super) fn hugepages(files: &mut GroupFiles<'_>) -> Vec<HugepageReading> {
    let Some((hierarchy, place)) = files.directory("hugetlb") else {
        return Vec::new();
    };
    let (used, most) = match hierarchy {
        Hierarchy::V2 => ("current", None),
        Hierarchy::V1 => ("usage_in_bytes", Some("max_usage_in_bytes")),
    };
    let mut count =
        |size: &str, name| files.uncached.count(place, &format!("hugetlb.{size}.{name}"));
    let read = |size: &String| {
        let usage = count(size, used)?;
        let peak = most.and_then(|name| count(size, name));
        Some(HugepageReading { size: size.clone(), usage, peak })
    };
    files.options.page_sizes.iter().filter_map(read).collect()
}
