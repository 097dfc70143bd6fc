//! `dockbridge-runtime`: an OCI runtime between containerd's shim and runc. It changes what the Engine
//! API has no field for, then lets runc do the work.
//!
//! The server writes the changes ([`crate::model::oci_edits::OciEdits`]) below a directory that only
//! root can change ([`directory::EditsDirectory`]). The runtime reads them at `create`, edits the
//! bundle's `config.json` ([`edit`], pure), makes the mounts it names ([`mounts`]), and runs runc.
//! Containers without changes pass through untouched. Nothing here knows pods, and nothing but
//! [`execute`] decides which command does what.

pub mod directory;
pub mod error;
