//! Parse: CRI messages to the model; malformed requests are refused.
//!
//! A refusal always names the field as the interface spells it. What is well formed but not
//! expressible on an engine is refused as such, never dropped silently.

pub mod adjustment;
mod cdi;
pub mod container;
pub mod error;
pub mod exec;
pub mod filter;
pub mod id;
pub mod image;
pub mod mount;
pub mod network;
pub mod sandbox;
pub mod security;
pub mod signal;
pub mod stream;
pub(super) mod text;
mod user_namespace;

#[cfg(test)]
pub(super) mod tests;
