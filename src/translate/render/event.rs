//! Renders container events. Each event has the status of the pod and of all its containers.

use super::{
    container::{self, ContainerView},
    sandbox,
};
use crate::{
    model::{event::ContainerEventType, record::SandboxRecord, time::Nanos},
    wire::cri,
};

/// A pod and its containers, as an event shows them.
pub struct Pod<'a> {
    /// The pod. If the pod is gone, its last known record.
    pub sandbox: &'a SandboxRecord,
    pub containers: Vec<ContainerView<'a>>,
}

/// Renders an event of the time `now` with encoded statuses, which kubelet stores in its cache.
pub fn event(
    id: &str,
    event: ContainerEventType,
    pod: &Pod<'_>,
    now: Nanos,
) -> cri::ContainerEventResponse {
    let kind = match event {
        ContainerEventType::Created => cri::ContainerEventType::ContainerCreatedEvent,
        ContainerEventType::Started => cri::ContainerEventType::ContainerStartedEvent,
        ContainerEventType::Stopped => cri::ContainerEventType::ContainerStoppedEvent,
        ContainerEventType::Deleted => cri::ContainerEventType::ContainerDeletedEvent,
    };
    cri::ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: kind.into(),
        created_at: now.0,
        pod_sandbox_status: cri::encoded(&sandbox::status(pod.sandbox)),
        containers_statuses: statuses(pod).iter().map(cri::encoded).collect(),
    }
}

/// Renders a ContainerStatus for each container of a pod.
pub fn statuses(pod: &Pod<'_>) -> Vec<cri::ContainerStatus> {
    pod.containers.iter().map(container::status).collect()
}
