//! The filters of CRI's list calls, as plain conditions on records.

use std::collections::BTreeMap;

use super::record::{ContainerRecord, ListedState, Process, SandboxRecord, SandboxState};

/// `PodSandboxFilter` of CRI. Every field that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxFilter {
    /// Prefix of the id; empty matches all.
    pub id: String,
    pub state: Option<SandboxState>,
    /// Labels that must be present with these values.
    pub labels: BTreeMap<String, String>,
    /// Nothing can match: the filter has a state that this version of CRI does not know.
    pub unsatisfiable: bool,
}

/// `ContainerFilter` of CRI. Every field that is set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFilter {
    /// Prefix of the id; empty matches all.
    pub id: String,
    pub state: Option<ContainerStateFilter>,
    /// Prefix of the sandbox's id; empty matches all.
    pub sandbox: String,
    /// Labels that must be present with these values.
    pub labels: BTreeMap<String, String>,
    /// Nothing can match: the filter has a state that this version of CRI does not know.
    pub unsatisfiable: bool,
}

/// `ContainerState` of CRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerStateFilter {
    Created,
    Running,
    Exited,
    Unknown,
}

impl SandboxFilter {
    /// Whether the record matches.
    pub fn matches(&self, record: &SandboxRecord) -> bool {
        !self.unsatisfiable
            && record.id.as_str().starts_with(&self.id)
            && self.state.is_none_or(|state| record.state() == state)
            && selects(&self.labels, &record.document.spec.labels)
    }
}

impl ContainerFilter {
    /// Whether the record matches.
    pub fn matches(&self, record: &ContainerRecord) -> bool {
        !self.unsatisfiable
            && record.id.as_str().starts_with(&self.id)
            && record.document.sandbox.as_str().starts_with(&self.sandbox)
            && self.state.is_none_or(|state| ContainerStateFilter::of(&record.process) == state)
            && selects(&self.labels, &record.document.spec.labels)
    }
}

impl ContainerStateFilter {
    /// The CRI state of a process.
    pub const fn of(process: &Process) -> Self {
        match process {
            Process::Created | Process::Listed(ListedState::Created) => Self::Created,
            Process::Running { .. } | Process::Listed(ListedState::Running) => Self::Running,
            Process::Exited { .. } | Process::Listed(ListedState::Exited { .. }) => Self::Exited,
            Process::Unknown => Self::Unknown,
        }
    }
}

/// Whether every requested label is present with its value.
fn selects(requested: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    requested.iter().all(|(key, value)| labels.get(key) == Some(value))
}
