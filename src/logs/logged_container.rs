//! The parts of a container's record that writing its log needs.

use std::path::{Path, PathBuf};

use super::{error::LogError, log_path::LogPath};
use crate::model::{
    id::ContainerId,
    record::{ContainerRecord, Process},
    time::Nanos,
};

#[derive(Clone, Debug)]
pub(super) struct LoggedContainer {
    pub(super) id: ContainerId,
    pub(super) source: Option<PathBuf>,
    pub(super) driver: String,
    pub(super) target: LogPath,
    pub(super) created_at: Nanos,
}

/// The state of a run of a container's process. The start time identifies the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    InProgress(Nanos),
    Ended(Nanos),
}

impl LoggedContainer {
    /// None if kubelet has requested no log for the container, or if the log path has too few components.
    pub(super) fn of(record: &ContainerRecord) -> Option<Self> {
        let spec = &record.document.spec;
        let path = spec.log_path.as_deref()?;
        Some(Self {
            id: record.id.clone(),
            source: record.engine_log.clone(),
            driver: record.log_driver.clone(),
            target: LogPath::of(path, spec.log_directory.as_deref())?,
            created_at: record.created_at,
        })
    }

    pub(super) fn source(&self) -> Result<&Path, LogError> {
        self.source.as_deref().ok_or_else(|| LogError::NoSource { driver: self.driver.clone() })
    }
}

impl RunState {
    /// None before the container's first run, and while the start time is unknown.
    pub(super) const fn of(process: &Process) -> Option<Self> {
        match process {
            Process::Running { started_at, .. } => Some(Self::InProgress(*started_at)),
            Process::Exited { started_at, .. } => Some(Self::Ended(*started_at)),
            Process::Created | Process::Listed(_) | Process::Unknown => None,
        }
    }
}
