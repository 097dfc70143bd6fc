//! Reads the figures of a cgroup.

use super::{
    cpu,
    file::Files,
    group_files::{GroupFiles, ReadOptions},
    io, memory, tasks,
};
use crate::{host::cgroup::Cgroup, model::stats::GroupReading};

/// `requested_shares` is 0 if no CPU shares were requested for the cgroup.
pub(in crate::stats) fn read(
    group: &Cgroup,
    requested_shares: i64,
    options: &ReadOptions,
    files: &mut Files,
) -> GroupReading {
    let files = &mut GroupFiles { group, options, uncached: files };
    let cpu = cpu::read(requested_shares, files);
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
