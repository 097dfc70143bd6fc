//! Readers of the kernel's figures: from a directory or a process to the types of
//! [`crate::model::stats`], whatever the layout of the control groups.
//!
//! Every reader blocks for some microseconds and is total: a missing file is a missing figure,
//! an unknown line is passed over, a number too large is the largest.

pub(super) mod cpu;
pub(super) mod file;
pub(super) mod group;
pub(super) mod interfaces;
pub(super) mod io;
pub(super) mod memory;
pub(super) mod partitions;
pub(super) mod paths;
pub(super) mod probe;
pub(super) mod processes;
pub(super) mod tasks;
pub(super) mod upper;

mod text;

#[cfg(test)]
mod tests;
