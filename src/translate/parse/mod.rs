//! Parse: converts CRI messages to the model, and refuses malformed requests.
//!
//! Each error names the field as the CRI does. dockbridge also refuses a valid request that the engine cannot
//! fulfil, and never silently ignores a part of it.

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
