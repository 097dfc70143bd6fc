//! The data types of pods, containers and images: ids, specifications, records, states, labels and names.
//!
//! This module does no I/O, reads no clock, and uses no async code and no CRI or Docker messages. The module imports
//! only `error` (and `fuzz_input` for fuzzing). Start with [`sandbox::SandboxSpec`] and [`container::ContainerSpec`]
//! (the request), [`record`] (the current state), [`document`] (what Docker labels store) and [`engine`].

pub mod accounts;
pub mod adjustment;
pub mod attachment;
pub mod cgroup_parents;
pub mod container;
pub mod document;
pub mod dump;
pub mod engine;
pub mod event;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod id;
pub mod image;
pub mod label;
pub mod listen;
pub mod name;
pub mod network;
pub mod oci_edits;
pub mod path;
pub mod pinned_images;
pub mod record;
pub mod reference;
pub mod resources;
pub mod restore;
pub mod sandbox;
pub mod security;
pub mod spec_edit;
pub mod stats;
pub mod stream;
pub mod time;
pub mod user_namespace;
pub mod volume;

#[cfg(test)]
mod tests;
