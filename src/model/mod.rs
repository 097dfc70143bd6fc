//! The nouns: ids, specs, records, states, labels and names. Correct by construction, no I/O,
//! no clock, no async. Everything here imports nothing of ours but `error`.

pub mod accounts;
pub mod attachment;
pub mod cdi;
pub mod container;
pub mod document;
pub mod engine;
pub mod exec;
pub mod filter;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod id;
pub mod image;
pub mod label;
pub mod life;
pub mod name;
pub mod network;
pub mod parents;
pub mod path;
pub mod pinned_images;
pub mod record;
pub mod reference;
pub mod resources;
pub mod sandbox;
pub mod security;
pub mod stats;
pub mod stream;
pub mod time;
pub mod volume;

#[cfg(test)]
mod tests;
