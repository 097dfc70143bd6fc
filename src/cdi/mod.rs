//! The Container Device Interface, for engines that do not know it: its specification files are
//! read here, and the devices they describe become device nodes, mounts and environment.
//!
//! What an engine cannot be told (hooks, changed nodes, …) is refused with the device, the file
//! and the reason. Only `nosuid`, `nodev` and `noexec` of its mounts are left out, which the log
//! tells: nearly every specification has them. Files are read at each use, as vendors rewrite them,
//! and one that cannot be understood hurts its own devices only.

mod catalogue;
mod edits;
pub mod error;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod node;
pub mod registry;
mod specification;
