//! Parse: converts CRI messages to the model, and refuses malformed requests.
//!
//! The error of a CRI request names the field as the CRI does. [`super::plan`] refuses what the engine cannot fulfil.

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
