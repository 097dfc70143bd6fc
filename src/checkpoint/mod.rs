//! What must survive a restart and Docker cannot store: versioned, checksummed, atomically replaced
//! files.
//!
//! It does not know Docker: labels are the source of truth for what a pod is; a checkpoint holds the
//! state of its network, so that the network is released even after Docker lost the pod. Start with
//! [`directory::Checkpoints`]; [`record`] has what is stored. A file that cannot be trusted is moved
//! to `quarantine/` and reported: it never fails the start and is never deleted.

pub mod directory;
pub mod envelope;
pub mod error;
pub mod record;

mod cri_dockerd;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod quarantine;
mod write_order;

#[cfg(test)]
mod tests;
