//! Restores a container from a checkpoint in place of its first start.
//!
//! The server puts the checkpoint into a directory that only root can change. At `create`, the images are fitted to
//! the `config.json` of the new container ([`fit`], pure), its changed files are brought into the root file system
//! ([`layer`]), and the lower runtime restores instead of creating ([`run`]). The checkpoint is then removed, so
//! that the next start is a fresh one. `docs/decisions/0047` says what is compared and what is not.

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
