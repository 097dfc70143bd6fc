//! Observe: Docker's answers to records. Only this module reads inspects, lists and events.
//!
//! Nothing here fails or panics. A missing or unknown field leaves a gap in the record; a container
//! of no pod is [`Foreign`].
//!
//! [`Foreign`]: crate::model::record::Observed::Foreign

mod adopted;
pub mod container;
pub mod engine;
pub mod event;
pub mod image;
pub mod listed;
mod process;
mod unread;

#[cfg(test)]
mod tests;
