//! Applies the filters of list calls for pods and containers. Each field of a filter that is set must match. A
//! filter is never an error: a number that the CRI does not define as a state matches no pod and no container.

use std::collections::BTreeMap;

use super::{container, sandbox};
use crate::{
    model::record::{ContainerRecord, SandboxRecord},
    wire::cri,
};

/// Whether ListPodSandbox with this filter returns the pod.
pub fn lists_sandbox(filter: Option<&cri::PodSandboxFilter>, record: &SandboxRecord) -> bool {
    filter.is_none_or(|asked| {
        asked.state.is_none_or(|value| value.state == i32::from(sandbox::state(record)))
            && is_sandbox(record, &asked.id, &asked.label_selector)
    })
}

/// Whether ListContainers with this filter returns the container.
pub fn lists_container(filter: Option<&cri::ContainerFilter>, record: &ContainerRecord) -> bool {
    filter.is_none_or(|asked| {
        asked.state.is_none_or(|value| value.state == i32::from(container::state(&record.process)))
            && is_container(record, [&asked.id, &asked.pod_sandbox_id], &asked.label_selector)
    })
}

/// Whether ListPodSandboxStats with this filter returns the pod, if its pause container runs.
pub fn measures_sandbox(
    filter: Option<&cri::PodSandboxStatsFilter>,
    record: &SandboxRecord,
) -> bool {
    filter.is_none_or(|asked| is_sandbox(record, &asked.id, &asked.label_selector))
}

/// Whether ListContainerStats with this filter returns the container, if it runs.
pub fn measures_container(
    filter: Option<&cri::ContainerStatsFilter>,
    record: &ContainerRecord,
) -> bool {
    filter.is_none_or(|asked| {
        is_container(record, [&asked.id, &asked.pod_sandbox_id], &asked.label_selector)
    })
}

/// Whether a pod matches an id and labels. `id` may be a prefix of the pod's id.
fn is_sandbox(record: &SandboxRecord, id: &str, labels: &BTreeMap<String, String>) -> bool {
    record.id.as_str().starts_with(id) && selects(labels, &record.document.spec.labels)
}

/// Whether a container matches labels and two ids, each of which may be a prefix: its own id and its pod's.
fn is_container(
    record: &ContainerRecord,
    [id, sandbox]: [&str; 2],
    labels: &BTreeMap<String, String>,
) -> bool {
    record.id.as_str().starts_with(id)
        && record.document.sandbox.as_str().starts_with(sandbox)
        && selects(labels, &record.document.spec.labels)
}

/// Whether `labels` has every requested label with the requested value.
fn selects(requested: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    requested.iter().all(|(key, value)| labels.get(key) == Some(value))
}
