//! Parse: CRI messages to the model. Malformed requests are refused.
//!
//! A refusal always names the field as in the interface. A valid request that the engine cannot fulfil is
//! also refused, and never silently ignored.

pub mod adjustment;
pub mod container;
pub mod dump;
pub mod error;
pub mod id;
pub mod image;
pub mod sandbox;
pub mod security;
pub mod stream;
pub(super) mod text;
mod user_namespace;

#[cfg(test)]
pub(super) mod tests;
