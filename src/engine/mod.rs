//! Talks to dockerd: calls in, model out.
//!
//! One pooled HTTP client on the engine's socket ([`client`]) carries every call. Paths are built
//! by hand from encoded names ([`address`]), the API version is settled by a ping and settled
//! again when the daemon changes ([`version`]), answers are read with a deadline and a size limit
//! and become records through `translate::observe`. Endless answers (pull, load, events) come
//! through [`stream`], a process's streams over a connection taken over ([`hijack`]). What a failure means is decided once, in [`refusal`].
//! That one server has an engine is held by a [`lock`].

pub mod archive;
pub mod attach;
pub mod client;
pub mod containers;
pub mod error;
pub mod events;
pub mod exec;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod hijack;
pub mod images;
pub mod layers;
pub mod lock;
pub mod log_messages;
pub mod logs;
pub mod meters;
pub mod pull;
pub mod storage;
pub mod version;

mod address;
mod demux;
mod exchange;
mod refusal;
mod stream;
mod tar;
#[cfg(test)]
mod tests;
