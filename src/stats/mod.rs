//! What containers and pods use, read from the kernel: control groups, network namespaces, and the
//! directories that writable layers are in. The engine is never asked.
//!
//! ```text
//! Stats (room) ── groups: where a container's files are, found once
//!              ── read:   the files' texts into figures
//!              ── rates:  what of two readings is a rate
//!              ── layers: what the walker measured, slowly, in the background
//!              ── disks:  the file system layers are on, likewise
//! ```

pub mod error;
pub mod room;

mod disks;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod groups;
mod layers;
mod pods;
mod rates;
mod read;
mod specimen;
mod walker;

#[cfg(test)]
mod tests;
