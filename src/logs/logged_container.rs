//! What the log of a container needs of its record.

use std::path::PathBuf;

use super::log_path::LogPath;
use crate::model::{
    id::ContainerId,
    record::{ContainerRecord, Process},
    time::Nanos,
};

/// A container whose log is wanted.
#[derive(Clone, Debug)]
pub(super) struct LoggedContainer {
    pub(super) id: ContainerId,
    /// The engine's log file, if it has one.
    pub(super) source: Option<PathBuf>,
    /// Where the kubelet wants it.
    pub(super) target: LogPath,
    /// Whether the container has a terminal.
    pub(super) tty: bool,
    pub(super) created_at: Nanos,
}

/// One run of a container's process, identified by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    InProgress(Nanos),
    /// What it wrote is all there will be.
    Over(Nanos),
}

impl LoggedContainer {
    /// None when no log was asked for.
    pub(super) fn of(record: &ContainerRecord) -> Option<Self> {
        let spec = &record.document.spec;
        let path = spec.log_path.as_deref()?;
        Some(Self {
            id: record.id.clone(),
            source: record.engine_log.clone(),
            target: LogPath::of(path, spec.log_directory.as_deref())?,
            tty: spec.tty,
            created_at: record.created_at,
        })
    }
}

impl RunState {
    /// None before the first, and when it is unknown.
    pub(super) const fn of(process: &Process) -> Option<Self> {
        match process {
            Process::Running { started_at, .. } => Some(Self::InProgress(*started_at)),
            Process::Exited { started_at, .. } => Some(Self::Over(*started_at)),
            Process::Created | Process::Listed(_) | Process::Unknown => None,
        }
    }
}
