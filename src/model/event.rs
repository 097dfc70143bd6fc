//! Events of containers and pods, as GetContainerEvents reports them.

/// `ContainerEventType` of CRI, for a container or for a pod's pause container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerEventType {
    Created,
    /// Its process started. For a pod: the pod is ready.
    Started,
    /// Its process ended, or could not be started.
    Stopped,
    Deleted,
}
