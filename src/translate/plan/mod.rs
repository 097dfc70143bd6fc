//! Plan: makes the body of a Docker API request from a specification and its [`input`].
//!
//! It does no I/O and uses neither clock nor random numbers: a plan depends only on its arguments. What CRI
//! does not state is stated here, so that no configuration of the engine or image decides it. Start with
//! [`container::plan`] and [`sandbox::plan`]. Each file makes one part of the body, such as [`identity`],
//! `mounts` or `security_options`.

pub mod adjustment;
mod capabilities;
pub mod container;
mod defaults;
pub mod etc_files;
pub mod express;
pub mod identity;
pub mod input;
pub mod labels;
mod mounts;
mod name;
pub mod network_namespace;
pub mod oci_edits;
mod oci_runtime;
mod read_only;
pub mod sandbox;
pub(super) mod seccomp;
mod security_options;
pub mod unstarted;

#[cfg(test)]
pub(super) mod tests;
