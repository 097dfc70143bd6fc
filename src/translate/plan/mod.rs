//! Specs and facts to Docker bodies: what exactly the engine is asked to make.
//!
//! Files follow topics that pods and containers share. Invariants: no I/O, no clock, no random;
//! everything a plan depends on is in its facts. Nothing is left to a default that the engine's
//! configuration or an image could change: what CRI does not state is stated here.

mod capabilities;
mod cdi;
mod cgroup;
pub mod container;
mod devices;
pub mod error;
pub mod extras;
pub mod files;
pub mod identity;
mod image;
mod image_mounts;
mod labels;
mod mounts;
mod name;
mod ports;
mod read_only;
pub mod resources;
mod runtime;
pub mod sandbox;
pub(super) mod seccomp;
mod security;
pub mod unstarted;
pub mod update;

#[cfg(test)]
mod tests;
