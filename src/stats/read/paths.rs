//! The paths of a cgroup's files, by controller and version.

use std::path::{Path, PathBuf};

use super::{file::Files, text};
use crate::{
    host::cgroup::{Cgroup, Hierarchy, open_files::OpenFiles},
    model::{
        stats::{Detail, Limit},
        time::Nanos,
    },
};

/// Directories of a cgroup's files. Each controller may have a separate hierarchy.
#[derive(Clone, Debug, Default)]
pub(in crate::stats) struct CgroupPaths {
    /// The controller of CPU time.
    pub(super) cpu_usage: Option<(Hierarchy, PathBuf)>,
    /// The controller of the quota, on version 1.
    pub(super) cpu: Option<PathBuf>,
    pub(super) memory: Option<(Hierarchy, PathBuf)>,
    pub(super) io: Option<(Hierarchy, PathBuf)>,
    pub(super) pids: Option<PathBuf>,
    pub(super) hugepages: Option<(Hierarchy, PathBuf)>,
    /// Version 2 has pressure with any controllers, also if version 1 is used for them.
    pub(super) pressure: Option<PathBuf>,
    /// Memory of the machine in bytes. A higher limit counts as no limit.
    pub(super) machine_memory: u64,
    /// CPU shares requested for the cgroup; 0 if none were.
    pub(in crate::stats) requested_shares: i64,
    pub(super) kept: OpenFiles,
}

/// Values that are the same for all cgroups.
#[derive(Clone, Debug)]
pub(in crate::stats) struct ReadOptions {
    pub(in crate::stats) detail: Detail,
    pub(in crate::stats) page_sizes: Vec<String>,
    pub(in crate::stats) now: fn() -> Nanos,
}

impl CgroupPaths {
    /// The paths of a cgroup that was found.
    pub(in crate::stats) fn of(group: &Cgroup, machine_memory: u64) -> Self {
        let owned = |(hierarchy, place): (Hierarchy, &Path)| (hierarchy, place.to_owned());
        let v1 = |controller| {
            let (hierarchy, place) = group.directory(controller)?;
            (hierarchy == Hierarchy::V1).then(|| place.to_owned())
        };
        let io = v1("blkio").map(|place| (Hierarchy::V1, place));
        Self {
            cpu_usage: group.directory("cpuacct").map(owned),
            cpu: v1("cpu"),
            memory: group.directory("memory").map(owned),
            io: io.or_else(|| group.directory("io").map(owned)),
            pids: group.directory("pids").map(|(_, place)| place.to_owned()),
            hugepages: group.directory("hugetlb").map(owned),
            pressure: group.v2().map(Path::to_owned),
            machine_memory,
            requested_shares: 0,
            kept: group.open_files().clone(),
        }
    }

    /// The paths of the cgroup above it.
    pub(in crate::stats) fn parent(&self) -> Self {
        let above = |place: &PathBuf| place.parent().map(Path::to_owned);
        let both = |known: &Option<(Hierarchy, PathBuf)>| {
            let (hierarchy, place) = known.as_ref()?;
            Some((*hierarchy, above(place)?))
        };
        Self {
            cpu_usage: both(&self.cpu_usage),
            cpu: self.cpu.as_ref().and_then(above),
            memory: both(&self.memory),
            io: both(&self.io),
            pids: self.pids.as_ref().and_then(above),
            hugepages: both(&self.hugepages),
            pressure: self.pressure.as_ref().and_then(above),
            machine_memory: self.machine_memory,
            requested_shares: 0,
            kept: self.kept.clone(),
        }
    }

    pub(in crate::stats) fn exists(&self) -> bool {
        self.any().is_some_and(Path::is_dir)
    }

    pub(in crate::stats) fn processes(&self, files: &mut Files) -> Vec<u32> {
        let text = self.any().and_then(|place| files.text(place, "cgroup.procs"));
        let lines = text.unwrap_or_default().lines();
        lines.filter_map(|line| line.trim().parse().ok()).collect()
    }

    fn any(&self) -> Option<&Path> {
        let placed = [&self.memory, &self.cpu_usage, &self.io];
        let first = placed.into_iter().flatten().map(|(_, place)| place).next();
        first.or(self.pids.as_ref()).or(self.pressure.as_ref()).map(PathBuf::as_path)
    }
}

/// Reads files of one cgroup. Some of the files that are read every time stay open.
#[derive(Debug)]
pub(in crate::stats) struct GroupFiles<'a> {
    pub(super) places: &'a CgroupPaths,
    pub(super) options: &'a ReadOptions,
    pub(super) uncached: &'a mut Files,
}

impl GroupFiles<'_> {
    /// Whether more than the usage is wanted.
    pub(super) fn is_detailed(&self) -> bool {
        self.options.detail == Detail::Everything
    }

    /// The text of a file. None if it does not exist or cannot be read.
    pub(super) fn text(&mut self, directory: &Path, name: &str) -> Option<&str> {
        self.uncached.kept_text(&self.places.kept, directory, name)
    }

    pub(super) fn count(&mut self, directory: &Path, name: &str) -> Option<u64> {
        text::count(self.text(directory, name)?)
    }

    pub(super) fn limit(&mut self, directory: &Path, name: &str) -> Option<Limit> {
        text::limit(self.text(directory, name)?)
    }
}
