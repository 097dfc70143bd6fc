//! Processes started in a container that runs: begun, watched to their end, and killed with all
//! they brought forth.
//!
//! The engine can start such a process and tell how it ended; it can neither end it nor say that
//! its main process has ended while a child holds the output open. Both are done here, from the
//! host's process table. Nothing here knows who asked: ExecSync and the streams both build on it.
//!
//! [`process`] is one such process, [`sight`] what the process table shows of it, [`kin`] who
//! belongs to it, [`marks`] what a server notes of them for the one after it, [`refusal`] what the
//! engine says of one that it did not begin.

pub mod error;
pub mod marks;
pub mod process;
pub mod refusal;

mod kin;
mod sight;
#[cfg(test)]
mod tests;
