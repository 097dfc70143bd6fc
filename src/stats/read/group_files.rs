//! The files of a cgroup from which dockbridge reads figures.

use std::path::Path;

use super::{file::Files, text};
use crate::{
    host::cgroup::{Cgroup, Hierarchy},
    model::{
        stats::{Detail, Limit, Pressure},
        time::Nanos,
    },
};

/// Options of a reading, which are the same for all cgroups.
#[derive(Clone, Debug)]
pub(in crate::stats) struct ReadOptions {
    pub(in crate::stats) detail: Detail,
    pub(in crate::stats) page_sizes: Vec<String>,
    /// Memory of the machine in bytes. Only a limit below this value determines a cgroup's available memory.
    pub(in crate::stats) machine_memory: u64,
    pub(in crate::stats) now: fn() -> Nanos,
}

/// Reads the files of a cgroup. Files that [`Self::text`] reads stay open if the limit of open files allows it.
#[derive(Debug)]
pub(super) struct GroupFiles<'a> {
    pub(super) group: &'a Cgroup,
    pub(super) options: &'a ReadOptions,
    pub(super) uncached: &'a mut Files,
}

impl<'a> GroupFiles<'a> {
    pub(super) fn is_detailed(&self) -> bool {
        self.options.detail == Detail::Everything
    }

    pub(super) fn directory(&self, controller: &str) -> Option<(Hierarchy, &'a Path)> {
        self.group.directory(controller)
    }

    pub(super) fn text(&mut self, directory: &Path, name: &str) -> Option<&str> {
        self.uncached.kept_text(self.group.open_files(), directory, name)
    }

    pub(super) fn count(&mut self, directory: &Path, name: &str) -> Option<u64> {
        text::count(self.text(directory, name)?)
    }

    pub(super) fn limit(&mut self, directory: &Path, name: &str) -> Option<Limit> {
        text::limit(self.text(directory, name)?)
    }

    /// Reads a pressure file of cgroup v2, even if the controllers belong to cgroup v1.
    pub(super) fn pressure(&mut self, name: &str) -> Option<Pressure> {
        text::pressure(self.text(self.group.v2()?, name)?)
    }
}
