//! Processes started in a container that runs: started, watched to their end, and killed with
//! their descendants.
//!
//! The engine can start such a process and report how it ended; it can neither end it nor report that
//! its main process has ended while a child holds the output open. Both are done here, from the
//! host's process table. It does not know who asked: ExecSync and the streams both build on it.
//!
//! [`process`] is one such process, [`process_lookup`] finds it in the process table,
//! [`process_tree`] says which processes belong to it, [`command_records`] has a file for each, for the
//! server after a crash, [`leftovers`] ends what is left of one, [`refusal`] reads why the engine did not start one.

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
