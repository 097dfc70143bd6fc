//! Plan: makes the body of a Docker API request from a specification and its [`input`].
//!
//! This module does no I/O and uses neither clock nor random numbers: a plan depends only on its arguments. Start with
//! [`container::plan`] and [`sandbox::plan`], which use most of the other files.

pub mod adjustment;
mod capabilities;
pub mod container;
mod defaults;
pub mod etc_files;
pub mod identity;
pub mod input;
pub mod labels;
mod mounts;
mod name;
pub mod network_namespace;
pub mod oci_edits;
mod oci_runtime;
mod read_only;
pub mod request_fields;
pub mod sandbox;
pub(super) mod seccomp;
mod security_options;
pub mod unstarted;

#[cfg(test)]
pub(super) mod tests;
