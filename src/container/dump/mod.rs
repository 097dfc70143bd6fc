//! CheckpointContainer: saves the processes of a running container and the changes of its files into an archive.
//!
//! ```text
//! service: facts ─▶ order ─▶ a detached program: freeze ─▶ runc and CRIU ─▶ copy the layer ─▶ thaw
//!                                  └─ ended ─▶ service: thaw ─▶ archive ─▶ rename
//! ```
//!
//! The program is never killed, because CRIU's code runs inside the container's processes: see
//! `docs/decisions/0046`. A deadline only ends the wait for it. If dockbridge ends, the next one waits for the
//! program, thaws the container, and removes the rest ([`leftovers`]).

mod archive;
pub mod error;
mod facts;
pub mod leftovers;
mod order;
mod rootfs_diff;
pub mod service;
pub mod work;
