//! Render: converts records to CRI messages, NRI messages and the files of checkpoint archives.
//!
//! kubelet's client fails the whole call if a pod or container lacks its identity or creation time, or a
//! container its image. So these fields are never empty.

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
