//! `dockbridge-runtime`: an OCI runtime between containerd's shim and runc. dockbridge-runtime changes what
//! the Engine API has no field for, and then runs the lower runtime, usually runc.
//!
//! The dockbridge server writes the changes ([`crate::model::oci_edits::OciEdits`]) to a directory that only
//! root can change ([`directory::EditsDirectory`]). At `create`, dockbridge-runtime reads the changes, makes
//! their mounts ([`create`]), edits the bundle's `config.json` ([`edit`], pure), and runs the lower runtime.
//! Containers without changes stay as they are. Start with [`execute`]. This module does not know pods.

mod apply;
pub mod command_line;
pub mod create;
pub mod criu_log;
pub mod directory;
mod document;
pub mod edit;
pub mod error;
pub mod execute;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod restore;

#[cfg(test)]
mod tests;
