//! The Container Device Interface, for devices that the engine does not add itself: parses the specification
//! files and turns the devices into edits of a container's `config.json`.
//!
//! Start with [`registry::Registry`]. With dockbridge's OCI runtime, edits of all kinds are applied. Without
//! dockbridge's OCI runtime, the caller says which edits the engine can do ([`registry::Registry::edits`]). Edits that
//! the engine would have to make but cannot (hooks, device nodes unlike the host's, …) are refused, and the error names
//! the device, the file and the reason. Without dockbridge's OCI runtime, `nosuid`, `nodev` and `noexec` of mounts are
//! ignored and logged, because many specifications have them. A malformed file does not prevent the use of devices that
//! other files define.

mod device_index;
mod device_node;
pub mod edits;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod registry;
mod specification;
