//! The Container Device Interface, for engines that do not read it: parses its specification files
//! and turns the devices into edits of a container's `config.json`.
//!
//! It does not know containers or Docker. Start with [`registry::Registry`]. With our OCI runtime all
//! edits of a device are carried out. Without it the caller says which the engine can do
//! ([`registry::Registry::edits`]), and others (hooks, changed nodes, …) are refused with the device, the file and
//! the reason; only `nosuid`, `nodev` and `noexec` of mounts are ignored and logged, as nearly every
//! specification has them. Files are read at each use, as vendors rewrite them, and a malformed one affects
//! its own devices only.

mod device_index;
mod device_node;
pub mod edits;
pub mod error;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod registry;
mod specification;
