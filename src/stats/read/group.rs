//! One reading of a cgroup.

use super::{
    cpu,
    file::{Files, GroupFiles},
    io, memory,
    paths::{CgroupPaths, ReadOptions},
    tasks,
};
use crate::model::stats::{Detail, GroupReading};

/// Reads all figures of a cgroup.
pub(in crate::stats) fn read(
    places: &CgroupPaths,
    options: &ReadOptions,
    files: &mut Files,
) -> GroupReading {
    let ReadOptions { detail, page_sizes, now } = options;
    let files = &mut GroupFiles::of(&places.kept, files);
    let cpu = cpu::read(places, *detail, *now, files);
    let (memory, swap) = memory::read(places, *detail, *now, files).unzip();
    GroupReading {
        cpu,
        memory,
        swap: swap.flatten(),
        io: io::read(places, *detail, *now, files),
        pids: tasks::tasks(places, *detail, *now, files),
        hugepages: match detail {
            Detail::Usage => Vec::new(),
            Detail::Everything => tasks::hugepages(places, page_sizes, files.uncached),
        },
    }
}
