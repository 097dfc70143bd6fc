//! Processes in a running container: starts them, waits for their end, and kills them with their descendants.
//!
//! The Engine API can start a process in a container and report its exit code. The API has no call to kill
//! the process, and may report its end late while a child holds the output open. This module kills the
//! process, and notices its end, with the host's process table. ExecSync and the streams use this module.
//!
//! [`process`] is one process that an exec has started, and [`process_lookup`] finds the process in the
//! process table. [`process_tree`] finds the descendants that belong to the process. [`command_records`] has
//! a file for each command of ExecSync, which the next dockbridge process needs. [`leftovers`] ends processes that
//! are left, and [`refusal`] reads why the engine did not start a process.

pub mod command_records;
pub mod error;
pub mod follow;
pub mod leftovers;
pub mod process;
mod refusal;

mod process_lookup;
mod process_tree;
#[cfg(test)]
mod tests;
