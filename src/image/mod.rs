//! Images: pull, remove, the pause image, and the space that images take.
//!
//! Lists and almost all statuses come from the store. Start with [`service::Images`]. A pull or a removal runs as its
//! own task and returns when the store shows the change. `pull` pulls an image, `stall` decides when a pull
//! is stalled, `remove` removes an image, `pause` finds, loads or pulls the pause image, `usage` answers
//! ImageFsInfo, and `kubelet_images` knows which images were pulled for kubelet.

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
