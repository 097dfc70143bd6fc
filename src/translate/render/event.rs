//! Container events, each with the status of its pod and all containers.

use super::{
    container::{self, ContainerView},
    sandbox,
};
use crate::{
    model::{event::ContainerEventType, record::SandboxRecord, time::Nanos},
    wire::cri,
};

/// A pod and its containers.
pub struct Pod<'a> {
    /// The pod itself. If it is gone, as it was last seen.
    pub sandbox: &'a SandboxRecord,
    pub containers: Vec<ContainerView<'a>>,
}

/// One event with encoded statuses. `now` is the time of the statuses, which kubelet uses as the age of its
/// cache.
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

/// ContainerStatus of every container of a pod.
pub fn statuses(pod: &Pod<'_>) -> Vec<cri::ContainerStatus> {
    pod.containers.iter().map(container::status).collect()
}
