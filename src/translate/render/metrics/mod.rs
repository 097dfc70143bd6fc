//! Renders the kernel's figures as CRI metrics, with cAdvisor's names.
//!
//! A table defines the descriptor of each CRI metric, and how its samples are made from a reading. An unknown
//! value has no sample; it is not 0.
//!
//! ```text
//! response ── rows: the table ── table: what a row is
//! ```

pub mod response;

mod rows;
mod table;

#[cfg(test)]
mod tests;
