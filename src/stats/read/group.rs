//! One reading of a cgroup.

use super::{
    cpu,
    file::Files,
    io, memory,
    paths::{CgroupPaths, GroupFiles, ReadOptions},
    tasks,
};
use crate::model::stats::GroupReading;

/// Reads all figures of a cgroup.
pub(in crate::stats) fn read(
    places: &CgroupPaths,
    options: &ReadOptions,
    files: &mut Files,
) -> GroupReading {
    let files = &mut GroupFiles { places, options, uncached: files };
    let cpu = cpu::read(files);
    let (memory, swap) = memory::read(files).unzip();
    GroupReading {
        cpu,
        memory,
        swap: swap.flatten(),
        io: io::read(files),
        pids: tasks::tasks(files),
        hugepages: tasks::hugepages(files),
    }
}
