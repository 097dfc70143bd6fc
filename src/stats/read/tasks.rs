//! Tasks and huge pages of a cgroup.

use std::path::Path;

use super::{file::Files, paths::GroupFiles};
use crate::{
    host::cgroup::Hierarchy,
    model::stats::{HugepageReading, PidsReading},
};

/// The number of tasks. None if they are not counted.
pub(super) fn tasks(files: &mut GroupFiles<'_>) -> Option<PidsReading> {
    let place = files.places.pids.as_ref()?;
    let tasks = files.count(place, "pids.current")?;
    let at = (files.options.now)();
    let limit = if files.is_detailed() { files.uncached.limit(place, "pids.max") } else { None };
    Some(PidsReading { at, tasks, limit })
}

/// The usage of huge pages of the wanted sizes, without sizes that are not counted.
pub(super) fn hugepages(files: &mut GroupFiles<'_>) -> Vec<HugepageReading> {
    let Some((hierarchy, place)) = &files.places.hugepages else { return Vec::new() };
    let read = |size: &String| match hierarchy {
        Hierarchy::V2 => v2(place, size, files.uncached),
        Hierarchy::V1 => v1(place, size, files.uncached),
    };
    files.options.page_sizes.iter().filter_map(read).collect()
}

fn v2(place: &Path, size: &str, files: &mut Files) -> Option<HugepageReading> {
    let usage = files.count(place, &format!("hugetlb.{size}.current"))?;
    let events = files.text(place, &format!("hugetlb.{size}.events"));
    let limit_hits = events.and_then(|text| {
        super::text::flat(text).find(|(name, _)| *name == "max").map(|(_, value)| value)
    });
    Some(HugepageReading { size: size.to_owned(), usage, peak: None, limit_hits })
}

fn v1(place: &Path, size: &str, files: &mut Files) -> Option<HugepageReading> {
    let usage = files.count(place, &format!("hugetlb.{size}.usage_in_bytes"))?;
    let peak = files.count(place, &format!("hugetlb.{size}.max_usage_in_bytes"));
    let limit_hits = files.count(place, &format!("hugetlb.{size}.failcnt"));
    Some(HugepageReading { size: size.to_owned(), usage, peak, limit_hits })
}
