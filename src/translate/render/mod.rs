//! Render: records to CRI messages.
//!
//! Kubelet's client turns an answer that lacks an identity, a creation time or an image into an
//! error for the whole call, so nothing rendered here ever lacks them.

pub mod container;
pub mod event;
pub mod image;
pub mod metrics;
pub mod nri;
pub mod runtime;
pub mod sandbox;
pub mod stats;

mod signal;
mod time;
mod user_namespace;
mod verbose;

#[cfg(test)]
mod tests;
