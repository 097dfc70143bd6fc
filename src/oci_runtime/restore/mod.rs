//! Restores a container from a container checkpoint. The restore replaces the first start of the container.
//!
//! The dockbridge server unpacks the container checkpoint into a directory that only root can change. At `create`,
//! dockbridge-runtime fits CRIU's images to the new `config.json` ([`fit`], pure), applies the changed files to the
//! root file system ([`layer`]), lets the lower runtime restore the container ([`run`]), and removes the unpacked
//! files, so that no later start restores the container from them. `docs/decisions/0047` explains the checks.

pub mod archive;
pub(super) mod config;
pub(super) mod fit;
mod image;
pub(super) mod images;
pub(super) mod layer;
mod messages;
mod mounts;
pub(super) mod paths;
mod rights;
pub mod run;
mod seccomp;
mod sockets;
mod tmpfs;

#[cfg(test)]
mod tests;
