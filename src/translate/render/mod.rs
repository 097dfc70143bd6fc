//! Render: records to CRI messages.
//!
//! If an answer lacks an identity, a creation time or an image, kubelet's client fails the whole call. So
//! everything rendered here has them.

pub mod container;
pub mod dump;
pub mod event;
pub mod filter;
pub mod image;
pub mod metrics;
pub mod nri;
pub mod runtime;
pub mod sandbox;
pub mod stats;

mod time;
mod verbose;

#[cfg(test)]
mod tests;
