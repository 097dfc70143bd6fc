//! Images: pull, remove, the pause image, and the space that images take.
//!
//! Lists and statuses come from the store. The calls here change the engine's images. They run on their own
//! tasks ([`service::Images`]) and return when the store has the change. `pull` has the transfer, `stall`
//! decides when a pull is stalled, `remove` has the order of a removal, `pause` the pause image, `usage`
//! ImageFsInfo, and `kubelet_images` which images kubelet may remove.

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
