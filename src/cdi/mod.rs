//! The Container Device Interface, for engines that do not read it: parses its specification files
//! and turns the devices into edits of a container's `config.json`.
//!
//! This module does not know containers or Docker. Start with [`registry::Registry`]. With dockbridge's OCI
//! runtime, all edits of a device are applied. Without dockbridge's OCI runtime, the caller says which edits
//! the engine can do ([`registry::Registry::edits`]). Edits that the engine cannot do (hooks, changed nodes,
//! …) are refused, and the error names the device, the file and the reason. Only `nosuid`, `nodev` and
//! `noexec` of mounts are ignored and logged, because nearly every specification has them. The specification
//! files are read for each container, because vendors rewrite them. A malformed file affects only the devices
//! that it defines.

mod device_index;
mod device_node;
pub mod edits;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod registry;
mod specification;
