//! What must survive and Docker cannot hold: versioned, checksummed, atomically replaced files.
//!
//! One file per sandbox, `sandboxes/<id>.json` under the state directory, and one for the pod
//! CIDRs. Docker's labels are the source of truth for what a pod is; a file here says how far
//! its network has come, and lets the network be released after Docker lost the pod. A file that
//! cannot be trusted is moved to `quarantine/` and reported: never fatal, never deleted.

pub mod directory;
pub mod envelope;
pub mod error;
pub mod record;

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod order;
mod predecessor;
mod quarantine;

#[cfg(test)]
mod tests;
