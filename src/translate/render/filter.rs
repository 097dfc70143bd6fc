//! The filters of the list calls. Every part that is set must match. A filter is never an error: a state that this
//! version of CRI does not know matches nothing.

use std::collections::BTreeMap;

use super::{container, sandbox};
use crate::{
    model::record::{ContainerRecord, SandboxRecord},
    wire::cri,
};

/// Whether ListPodSandbox has the pod.
pub fn lists_sandbox(filter: Option<&cri::PodSandboxFilter>, record: &SandboxRecord) -> bool {
    filter.is_none_or(|asked| {
        asked.state.is_none_or(|value| value.state == i32::from(sandbox::state(record)))
            && is_sandbox(record, &asked.id, &asked.label_selector)
    })
}

/// Whether ListContainers has the container.
pub fn lists_container(filter: Option<&cri::ContainerFilter>, record: &ContainerRecord) -> bool {
    filter.is_none_or(|asked| {
        asked.state.is_none_or(|value| value.state == i32::from(container::state(&record.process)))
            && is_container(record, [&asked.id, &asked.pod_sandbox_id], &asked.label_selector)
    })
}

/// Whether ListPodSandboxStats has the pod, if its pause container runs.
pub fn measures_sandbox(
    filter: Option<&cri::PodSandboxStatsFilter>,
    record: &SandboxRecord,
) -> bool {
    filter.is_none_or(|asked| is_sandbox(record, &asked.id, &asked.label_selector))
}

/// Whether ListContainerStats has the container, if it runs.
pub fn measures_container(
    filter: Option<&cri::ContainerStatsFilter>,
    record: &ContainerRecord,
) -> bool {
    filter.is_none_or(|asked| {
        is_container(record, [&asked.id, &asked.pod_sandbox_id], &asked.label_selector)
    })
}

/// `id` is a prefix.
fn is_sandbox(record: &SandboxRecord, id: &str, labels: &BTreeMap<String, String>) -> bool {
    record.id.as_str().starts_with(id) && selects(labels, &record.document.spec.labels)
}

/// Both ids are prefixes.
fn is_container(
    record: &ContainerRecord,
    [id, sandbox]: [&str; 2],
    labels: &BTreeMap<String, String>,
) -> bool {
    record.id.as_str().starts_with(id)
        && record.document.sandbox.as_str().starts_with(sandbox)
        && selects(labels, &record.document.spec.labels)
}

/// Whether every requested label is present with its value.
fn selects(requested: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    requested.iter().all(|(key, value)| labels.get(key) == Some(value))
}
