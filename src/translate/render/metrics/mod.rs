//! The kernel's figures as CRI's metrics, under the names cAdvisor made known.
//!
//! One table is both: what is announced, and how each sample is had from a reading. A row that
//! finds nothing in a [`crate::model::stats::MachineSample`] of this machine is not announced; one that
//! finds nothing in a reading has no sample, and never 0 for an unknown figure.
//!
//! ```text
//! answer ── table: what a row is ── cpu, memory, disk, network, tasks, time: the rows
//! ```

pub mod answer;

mod cpu;
mod disk;
mod memory;
mod network;
mod table;
mod tasks;
mod time;

#[cfg(test)]
mod tests;
