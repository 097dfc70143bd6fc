//! Images: pull, remove, the pause image, and the space that images take.
//!
//! Lists and statuses come from the store. The calls of this module change the engine's images. Each call
//! runs as its own task ([`service::Images`]) and returns when the store shows the change. `pull` pulls an
//! image, `stall` decides when a pull is stalled, `remove` removes an image, `pause` finds the pause image,
//! `usage` answers ImageFsInfo, and `kubelet_images` knows which images kubelet may remove.

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod kubelet_images;
pub mod metrics;
pub mod service;
pub mod stall;

mod credentials;
mod pause;
mod pull;
mod remove;
mod usage;

#[cfg(test)]
mod tests;
