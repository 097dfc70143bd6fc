//! Events of containers and pods, as GetContainerEvents reports them.

/// `ContainerEventType` of CRI, of a container or of a pod's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerEventType {
    Created,
    /// Its process started; of a pod: it became ready.
    Started,
    /// Its process ended, or could not be started.
    Stopped,
    Deleted,
}
