//! `dockbridge-runtime`: an OCI runtime between containerd's shim and runc. It changes what the Engine
//! API has no field for, then lets runc do the work.
//!
//! The server writes the changes ([`crate::model::oci_edits::OciEdits`]) below a directory that only
//! root can change ([`directory::EditsDirectory`]). The runtime reads them at `create`, edits the
//! bundle's `config.json` ([`edit`], pure), makes the mounts it needs ([`create`]), and runs runc.
//! Containers without changes pass through untouched. Start with [`execute`], which says what becomes
//! of each command. Nothing here knows pods.

mod apply;
pub mod command_line;
pub mod create;
pub mod directory;
mod document;
pub mod edit;
pub mod error;
pub mod execute;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod log;

#[cfg(test)]
mod tests;
