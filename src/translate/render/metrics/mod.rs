//! The kernel's values as CRI metrics, with cAdvisor's names.
//!
//! One table has the descriptors, and how each sample is made from a reading. A row without a sample for
//! this machine's [`crate::model::stats::MachineSample`] has no descriptor. An unknown value has no sample,
//! never a 0.
//!
//! ```text
//! response ── table: what a row is ── cpu, memory, disk, network, tasks, time: the rows
//! ```

pub mod response;

mod cpu;
mod disk;
mod memory;
mod network;
mod table;
mod tasks;
mod time;

#[cfg(test)]
mod tests;
