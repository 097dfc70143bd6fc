//! `dockbridge-runtime`: an OCI runtime between containerd's shim and runc. dockbridge-runtime makes those changes to
//! a container for which the Engine API has no field, and then runs the lower runtime, usually runc.
//!
//! The dockbridge server writes the changes ([`crate::model::oci_edits::OciEdits`]) to a directory that only root can
//! change ([`directory::EditsDirectory`]). At `create`, dockbridge-runtime reads the changes, makes their mounts
//! ([`create`]), edits the bundle's `config.json` ([`edit`], pure), and runs the lower runtime. Start with [`execute`].

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
