//! The Container Device Interface, for engines that do not read it: parses its specification files
//! and turns the devices into device nodes, mounts and environment.
//!
//! It does not know containers or Docker. Start with [`registry::Registry`]. Our OCI runtime does all of
//! them. Without it, what the Engine API cannot express (hooks, changed nodes, …) is refused with the
//! device, the file and the reason; only `nosuid`, `nodev` and `noexec` of mounts are ignored and
//! logged, as nearly every specification has them. Files are read at each use, as vendors rewrite them, and a malformed one
//! affects its own devices only.

mod changes;
mod device_index;
mod device_node;
mod edits;
pub mod error;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod registry;
mod specification;
