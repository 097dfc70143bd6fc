//! The steps of a life, as CRI tells of them.

/// A step in the life of a container, or of a pod's own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is there.
    Created,
    /// Its process began; of a pod: it became ready.
    Started,
    /// Its process ended, or could not be started.
    Stopped,
    /// It is gone.
    Deleted,
}
