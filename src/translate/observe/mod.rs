//! Observe: converts Docker's answers to the model. Only this module makes records from inspects and lists.
//!
//! No function here returns an error or panics. A missing or unknown optional field has no value or a default. A
//! container that does not belong to a pod, or lacks the data that identify it, is [`Foreign`].
//!
//! [`Foreign`]: crate::model::record::Observed::Foreign

mod adopted;
pub mod container;
pub mod engine;
pub mod event;
pub mod image;
pub mod listed;

#[cfg(test)]
mod tests;
