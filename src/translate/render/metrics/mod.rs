//! The kernel's values as CRI metrics, with cAdvisor's names.
//!
//! One table has the descriptors, and how each sample is made from a reading. An unknown value has no
//! sample, never a 0.
//!
//! ```text
//! response ── rows: the table ── table: what a row is
//! ```

pub mod response;

mod rows;
mod table;

#[cfg(test)]
mod tests;
