//! Reads the kernel's values of a directory or a process into the types of [`crate::model::stats`], for any
//! layout of cgroups.
//!
//! Every reader blocks for a few microseconds and never fails. A missing file is a missing value, an
//! unknown line is skipped, and a number that is too large becomes the largest one.

pub(super) mod cpu;
pub(super) mod file;
pub(super) mod group;
pub(super) mod group_files;
pub(super) mod interfaces;
pub(super) mod io;
pub(super) mod memory;
pub(super) mod partitions;
pub(super) mod processes;
pub(super) mod tasks;

mod text;

#[cfg(test)]
mod tests;
