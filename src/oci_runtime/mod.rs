//! `dockbridge-runtime`: an OCI runtime between containerd's shim and runc. It makes the changes for which
//! the Engine API has no field, and then runs runc for the real work.
//!
//! The server writes the changes ([`crate::model::oci_edits::OciEdits`]) to a directory that only root can
//! change ([`directory::EditsDirectory`]). At `create`, the runtime reads them, edits the bundle's
//! `config.json` ([`edit`], pure), makes the needed mounts ([`create`]), and runs runc. Containers without
//! changes are not touched. Start with [`execute`], which decides what happens for each command. This
//! module does not know pods.

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
