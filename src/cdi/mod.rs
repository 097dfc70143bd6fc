//! The Container Device Interface, for engines that do not read it: parses its specification files
//! and turns the devices into edits of a container's `config.json`.
//!
//! It does not know containers or Docker. Start with [`registry::Registry`]. With our OCI runtime all edits
//! of a device are carried out. Without it the caller says which edits the engine can do
//! ([`registry::Registry::edits`]). Other edits (hooks, changed nodes, …) are refused, and the error names
//! the device, the file and the reason. Only `nosuid`, `nodev` and `noexec` of mounts are ignored and
//! logged, because nearly every specification has them. Files are read at each use, because vendors rewrite
//! them. A malformed file affects only its own devices.

mod device_index;
mod device_node;
pub mod edits;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod registry;
mod specification;
