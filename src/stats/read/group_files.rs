//! The files of a cgroup, as they are read for its figures.

use std::path::Path;

use super::{file::Files, text};
use crate::{
    host::cgroup::{Cgroup, Hierarchy},
    model::{
        stats::{Detail, Limit, Pressure},
        time::Nanos,
    },
};

/// Values that are the same for all cgroups.
#[derive(Clone, Debug)]
pub(in crate::stats) struct ReadOptions {
    pub(in crate::stats) detail: Detail,
    pub(in crate::stats) page_sizes: Vec<String>,
    /// Memory of the machine in bytes. A higher limit counts as no limit.
    pub(in crate::stats) machine_memory: u64,
    pub(in crate::stats) now: fn() -> Nanos,
}

/// Reads files of one cgroup. Some of the files that are read every time stay open.
#[derive(Debug)]
pub(super) struct GroupFiles<'a> {
    pub(super) group: &'a Cgroup,
    pub(super) options: &'a ReadOptions,
    pub(super) uncached: &'a mut Files,
}

impl<'a> GroupFiles<'a> {
    /// Whether the figures of the metrics are read as well.
    pub(super) fn is_detailed(&self) -> bool {
        self.options.detail == Detail::Everything
    }

    /// The directory of a controller's files, and their version.
    pub(super) fn directory(&self, controller: &str) -> Option<(Hierarchy, &'a Path)> {
        self.group.directory(controller)
    }

    /// The text of a file. None if it does not exist or cannot be read.
    pub(super) fn text(&mut self, directory: &Path, name: &str) -> Option<&str> {
        self.uncached.kept_text(self.group.open_files(), directory, name)
    }

    pub(super) fn count(&mut self, directory: &Path, name: &str) -> Option<u64> {
        text::count(self.text(directory, name)?)
    }

    pub(super) fn limit(&mut self, directory: &Path, name: &str) -> Option<Limit> {
        text::limit(self.text(directory, name)?)
    }

    /// Version 2 has pressure with any controllers, also if version 1 is used for them.
    pub(super) fn pressure(&mut self, name: &str) -> Option<Pressure> {
        text::pressure(self.text(self.group.v2()?, name)?)
    }
}
