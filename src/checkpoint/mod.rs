//! State that must survive a restart and that Docker cannot store, in versioned files with checksums that
//! are replaced atomically.
//!
//! It does not know Docker: labels are the source of truth for what a pod is. A checkpoint holds the state
//! of the pod's network, so that the network is released even after Docker lost the pod. Start with
//! [`directory::Checkpoints`]; [`record`] has what is stored. A file that cannot be trusted is moved to
//! `quarantine/` and reported. It never prevents the start and is never deleted.

pub mod directory;
pub mod envelope;
pub mod record;

mod cri_dockerd;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;

#[cfg(test)]
mod tests;
