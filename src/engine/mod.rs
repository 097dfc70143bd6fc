//! Requests to the Docker Engine, answers decoded into `model`.
//!
//! It knows HTTP and Docker's bodies, and nothing of pods. Start with [`client`]: one pooled client
//! on the engine's socket makes every request under a timeout, in the API [`version`] that a ping
//! negotiated. Paths are built in [`address`], endless answers (pull, load, events) come through
//! [`stream`], connections taken over for a process's streams through [`hijack`]. Which error an
//! HTTP status and its text become is decided in [`error_response`] alone. [`lock`] gives an engine one
//! server.

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
pub mod info;
pub mod layers;
pub mod lock;
pub mod log_messages;
pub mod logs;
pub mod metrics;
pub mod pull;
pub mod storage;

mod address;
mod demux;
mod error_response;
mod json_cutter;
mod request;
mod stream;
mod tar;
#[cfg(test)]
mod tests;
mod values;
mod version;
