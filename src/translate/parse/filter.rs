//! Filters of the list calls. A filter is never an error: one that cannot match selects nothing.

use super::image;
use crate::{
    model::{
        filter::{ContainerFilter, ContainerStateFilter, SandboxFilter},
        record::SandboxState,
    },
    wire::cri,
};

/// The filter of ListPodSandbox; without one, all sandboxes.
pub fn sandbox_filter(given: Option<&cri::PodSandboxFilter>) -> SandboxFilter {
    let Some(given) = given else { return SandboxFilter::default() };
    let state = given.state.map(|value| sandbox_state(value.state));
    SandboxFilter {
        id: given.id.clone(),
        state: state.flatten(),
        labels: given.label_selector.clone(),
        unsatisfiable: state == Some(None),
    }
}

/// The filter of ListContainers; without one, all containers.
pub fn container_filter(given: Option<&cri::ContainerFilter>) -> ContainerFilter {
    let Some(given) = given else { return ContainerFilter::default() };
    let state = given.state.map(|value| container_state(value.state));
    ContainerFilter {
        id: given.id.clone(),
        state: state.flatten(),
        sandbox: given.pod_sandbox_id.clone(),
        labels: given.label_selector.clone(),
        unsatisfiable: state == Some(None),
    }
}

/// The filter of ListContainerStats: running containers only; without one, all of them.
pub fn container_stats_filter(given: Option<&cri::ContainerStatsFilter>) -> ContainerFilter {
    let running =
        ContainerFilter { state: Some(ContainerStateFilter::Running), ..Default::default() };
    let Some(given) = given else { return running };
    ContainerFilter {
        id: given.id.clone(),
        sandbox: given.pod_sandbox_id.clone(),
        labels: given.label_selector.clone(),
        ..running
    }
}

/// The filter of ListPodSandboxStats; without one, all pods.
pub fn sandbox_stats_filter(given: Option<&cri::PodSandboxStatsFilter>) -> SandboxFilter {
    let Some(given) = given else { return SandboxFilter::default() };
    let labels = given.label_selector.clone();
    SandboxFilter { id: given.id.clone(), labels, ..SandboxFilter::default() }
}

/// The image name of a ListImages filter, without its prefix; none for all images.
pub fn image_filter(given: Option<&cri::ImageFilter>) -> Option<String> {
    let name = given?.image.as_ref()?.image.as_str();
    (!name.is_empty()).then(|| image::bare_name(name).to_owned())
}

fn sandbox_state(number: i32) -> Option<SandboxState> {
    match cri::PodSandboxState::try_from(number).ok()? {
        cri::PodSandboxState::SandboxReady => Some(SandboxState::Ready),
        cri::PodSandboxState::SandboxNotready => Some(SandboxState::NotReady),
    }
}

fn container_state(number: i32) -> Option<ContainerStateFilter> {
    Some(match cri::ContainerState::try_from(number).ok()? {
        cri::ContainerState::ContainerCreated => ContainerStateFilter::Created,
        cri::ContainerState::ContainerRunning => ContainerStateFilter::Running,
        cri::ContainerState::ContainerExited => ContainerStateFilter::Exited,
        cri::ContainerState::ContainerUnknown => ContainerStateFilter::Unknown,
    })
}
