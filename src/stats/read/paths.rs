//! The paths of a cgroup's files, by controller and version.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{file::Files, text};
use crate::{
    host::cgroup::{Cgroup, Hierarchy, open_files::OpenFiles},
    model::{
        stats::{Detail, Limit},
        time::Nanos,
    },
};

/// A controller, with its name on version 1. On version 2 all files are in the only directory of the cgroup.
///
/// The order matters: the directory of the first one that a cgroup has tells whether the cgroup exists, and
/// which processes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Memory,
    /// The usage of CPU time.
    Cpuacct,
    /// Reads and writes of disks.
    Blkio,
    Pids,
    /// The limits of CPU time.
    Cpu,
    Hugetlb,
}

impl Controller {
    const ALL: [Self; 6] =
        [Self::Memory, Self::Cpuacct, Self::Blkio, Self::Pids, Self::Cpu, Self::Hugetlb];

    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpuacct => "cpuacct",
            Self::Blkio => "blkio",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Hugetlb => "hugetlb",
        }
    }
}

/// Directories of a cgroup's files. Each controller may have a separate hierarchy.
#[derive(Clone, Debug, Default)]
pub(in crate::stats) struct CgroupPaths {
    pub(super) controllers: BTreeMap<Controller, (Hierarchy, PathBuf)>,
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
        let found = |controller: Controller| {
            let (hierarchy, place) = group.directory(controller.name())?;
            Some((controller, (hierarchy, place.to_owned())))
        };
        Self {
            controllers: Controller::ALL.into_iter().filter_map(found).collect(),
            pressure: group.v2().map(Path::to_owned),
            machine_memory,
            requested_shares: 0,
            kept: group.open_files().clone(),
        }
    }

    /// The paths of the cgroup above it.
    pub(in crate::stats) fn parent(&self) -> Self {
        let above = |place: &PathBuf| place.parent().map(Path::to_owned);
        let controllers = self.controllers.iter();
        Self {
            controllers: controllers
                .filter_map(|(name, (hierarchy, place))| Some((*name, (*hierarchy, above(place)?))))
                .collect(),
            pressure: self.pressure.as_ref().and_then(above),
            requested_shares: 0,
            ..self.clone()
        }
    }

    /// The directory of a controller's files, and their version.
    pub(super) fn directory(&self, controller: Controller) -> Option<(Hierarchy, &Path)> {
        self.controllers.get(&controller).map(|(hierarchy, place)| (*hierarchy, place.as_path()))
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
        let first = self.controllers.values().next().map(|(_, place)| place);
        first.or(self.pressure.as_ref()).map(PathBuf::as_path)
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
    /// Whether the figures of the metrics are read as well.
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
