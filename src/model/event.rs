//! The events of containers and pods that GetContainerEvents reports.

/// CRI's `ContainerEventType`, for a container or for a pod's pause container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerEventType {
    Created,
    /// The container's process has started, or the pod is ready.
    Started,
    /// The process of the container or pod has ended, or could not be started.
    Stopped,
    Deleted,
}
