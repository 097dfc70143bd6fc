//! Docker answers to records: the only place that reads what the engine says of an object.
//!
//! Invariants: nothing here fails and nothing panics. A field that is missing or in unknown words
//! makes a record poorer, never absent; what is not ours is [`Foreign`].
//!
//! [`Foreign`]: crate::model::record::Observed::Foreign

mod adopted;
pub mod container;
pub mod engine;
pub mod event;
pub mod image;
mod limits;
pub mod listed;
mod process;

#[cfg(test)]
mod tests;
