//! Observe: converts Docker's answers to the model. Only this module makes records from inspects and lists.
//!
//! No function of this module fails or panics. If a field is missing or unknown, the result has no value or a
//! default for it. A container that does not belong to a pod is [`Foreign`].
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
