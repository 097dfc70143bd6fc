//! Processes in a running container: starts them, waits for their end, and kills them with their
//! descendants.
//!
//! The Engine API can start a process in a container and report its exit code. It has no call to end the process,
//! and does not report its end while a child holds the output open. This module does both with the host's process
//! table. It does not know its callers. ExecSync and the streams use it.
//!
//! [`process`] is one such process, and [`process_lookup`] finds it in the process table. [`process_tree`]
//! finds the processes that belong to it. [`command_records`] has a file for each one, which the server
//! after a crash needs. [`leftovers`] ends what is left of one, and [`refusal`] reads why the engine did
//! not start one.

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
