//! Render: converts records to CRI messages.
//!
//! kubelet's client fails the whole call if an answer lacks an identity, a creation time or an image. All
//! rendered messages have an identity, a creation time and an image.

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
