//! The data types of pods, containers and images: ids, specifications, records, states, labels and names, correct by construction.
//!
//! It does no I/O and knows no clock, no async and neither wire; it imports nothing of ours but
//! `error`. Start with [`sandbox::SandboxSpec`] and [`container::ContainerSpec`] (what was requested),
//! [`record`] (what is true now), [`document`] (what is stored in Docker labels) and [`engine`].

pub mod accounts;
pub mod adjustment;
pub mod attachment;
pub mod cgroup_parents;
pub mod container;
pub mod document;
pub mod engine;
pub mod event;
pub mod exec;
pub mod filter;
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
