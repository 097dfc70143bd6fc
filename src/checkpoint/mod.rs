//! State that must survive a restart and that Docker cannot store, in versioned files with checksums.
//!
//! This module does not know Docker: the labels in Docker are the source of truth for a pod's properties. A
//! checkpoint holds the state of the pod's network, so that the network is released even after Docker lost
//! the pod. Start with [`directory::Checkpoints`]; [`record`] has the stored types. dockbridge moves a
//! damaged file to `quarantine/` and logs this.

pub mod directory;
pub mod envelope;
pub mod record;

mod cri_dockerd;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;

#[cfg(test)]
mod tests;
