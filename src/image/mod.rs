//! The image verbs: pull, remove, the pods' pause image, and the space images take.
//!
//! Reads (list, status) are the store's. The verbs here change the engine's images, run on tasks
//! of their own ([`images::Images`]), and answer once the store shows what they did. Two rules
//! are kept as pure state: which silence of a pull is a stall (`stall`), and what a removal has
//! to do next (`remove`).

pub mod error;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod images;
pub mod pulled;
pub mod settings;
pub mod stall;

mod credentials;
mod joined;
pub mod metrics;
mod pause;
mod pull;
mod remove;
mod usage;

#[cfg(test)]
mod tests;
