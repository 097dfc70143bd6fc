//! State that must survive a restart and that Docker cannot store, in versioned files with checksums.
//!
//! While Docker has a pod, dockbridge reads the pod's properties from Docker. A pod's checkpoint file holds the state
//! of the pod's network, so that dockbridge can release the network even after Docker lost the pod. Start with
//! [`directory::Checkpoints`]; [`record`] has the stored types. dockbridge moves a damaged file to `quarantine/` if
//! possible, and logs this.

pub mod directory;
pub mod envelope;
pub mod record;

mod cri_dockerd;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;

#[cfg(test)]
mod tests;
