//! Processes in a running container: starts them, waits for their end, and kills them with their descendants.
//!
//! The Engine API can start a process in a container and report its exit code. The Engine API has no call to
//! kill this process, and may report its end late while a child holds the output open. This module kills the
//! process, and notices its end, with the host's process table. ExecSync, streamed exec and attach use this module.
//!
//! [`process`] is one process that an exec has started, and [`process_lookup`] finds the process in the
//! process table. [`process_tree`] decides which processes belong to the exec. [`command_records`] has a file
//! for each running command of ExecSync, for the next dockbridge process. [`leftovers`] ends processes that
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
