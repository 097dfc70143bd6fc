//! Reads the kernel's values into the types of [`crate::model::stats`], for any layout of cgroups.
//!
//! Readers block and return no errors. If a file is missing, its values are missing.

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
