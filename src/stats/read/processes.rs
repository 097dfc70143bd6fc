//! Reads figures of a container's processes: threads, file descriptors, the limit of open files.

use std::{fs, path::Path};

use super::{file::Files, text::count};
use crate::{
    host::cgroup::Cgroup,
    model::stats::{GroupReading, ProcessReading},
};

/// Counts the processes in the cgroup itself, and reads up to [`MOST_PROCESSES`] of them. The limit of open files is
/// that of the process `main`. Counts threads only if `counted` lacks the kernel's count.
pub(in crate::stats) fn read(
    proc: &Path,
    main: u32,
    group: &Cgroup,
    counted: &GroupReading,
    files: &mut Files,
) -> ProcessReading {
    let mut reading = ProcessReading::default();
    let listed = group.any().and_then(|place| files.text(place, "cgroup.procs"));
    let lines = listed.unwrap_or_default().lines();
    let pids: Vec<u32> = lines.filter_map(|line| line.trim().parse().ok()).collect();
    let mut held = DescriptorCount::default();
    let (looked_at, left) = pids.split_at(pids.len().min(MOST_PROCESSES));
    for pid in looked_at {
        let place = proc.join(pid.to_string());
        if counted.pids.is_none() {
            let Some(text) = files.text(&place, "status") else { continue };
            reading.threads = reading.threads.saturating_add(threads(text).unwrap_or(1));
        }
        reading.processes = reading.processes.saturating_add(1);
        held.count(&place.join("fd"));
    }
    reading.processes = reading.processes.saturating_add(left.len() as u64);
    if left.is_empty() {
        (reading.descriptors, reading.sockets) = held.known().unzip();
    }
    let limits = files.text(&proc.join(main.to_string()), "limits");
    reading.open_files_limit = limits.and_then(open_files_limit);
    reading
}

pub(in crate::stats) fn threads(status: &str) -> Option<u64> {
    count(status.lines().find_map(|line| line.strip_prefix("Threads:"))?)
}

/// The soft limit of open files in `/proc/<pid>/limits`. "unlimited" becomes the largest number.
pub(in crate::stats) fn open_files_limit(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files "))?;
    let soft = line.split_ascii_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { count(soft) }
}

/// Counts a container's file descriptors. One process may have a million descriptors, so the count has a limit.
#[derive(Debug, Default)]
struct DescriptorCount {
    all: usize,
    sockets: usize,
}

impl DescriptorCount {
    fn count(&mut self, place: &Path) {
        let left = (MOST_DESCRIPTORS + 1).saturating_sub(self.all);
        if left == 0 {
            return;
        }
        for entry in fs::read_dir(place).into_iter().flatten().flatten().take(left) {
            let target = fs::read_link(entry.path());
            let is_socket = target.is_ok_and(|target| {
                target.to_str().is_some_and(|target| target.starts_with("socket:"))
            });
            self.all += 1;
            self.sockets += usize::from(is_socket);
        }
    }

    /// Number of file descriptors, and number of sockets among them. `None` above [`MOST_DESCRIPTORS`].
    fn known(&self) -> Option<(u64, u64)> {
        let counted = self.all <= MOST_DESCRIPTORS;
        counted.then_some((self.all as u64, self.sockets as u64))
    }
}

const MOST_PROCESSES: usize = 1_000;
/// dockbridge reports no number of a container's descriptors above this one. Reading 10,000 descriptors takes about
/// 10 ms on an idle machine.
const MOST_DESCRIPTORS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_descriptors_are_not_counted() {
        let place = tempfile::tempdir().unwrap();
        let open = |number: usize, target: &str| {
            std::os::unix::fs::symlink(target, place.path().join(number.to_string())).unwrap();
        };
        open(0, "socket:[7]");
        open(1, "/dev/null");
        let counted = |times: usize| {
            let mut held = DescriptorCount::default();
            (0..times).for_each(|_| held.count(place.path()));
            held
        };
        assert_eq!(counted(1).known(), Some((2, 1)));
        assert_eq!(counted(MOST_DESCRIPTORS / 2).known().map(|(all, _)| all), Some(10_000));
        let over = counted(MOST_DESCRIPTORS);
        assert_eq!((over.known(), over.all), (None, MOST_DESCRIPTORS + 1), "it stops looking");
    }
}
