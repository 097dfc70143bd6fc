//! Requests to the Docker Engine, answers decoded into `model`.
//!
//! The module knows HTTP and Docker's bodies, but not pods. Start with [`client`]: one pooled client on the
//! engine's socket makes every request with a timeout, in the API [`version`] negotiated by a ping. Paths
//! are built in [`address`]. Endless answers (pull, load, events) come through [`stream`], and hijacked
//! connections to a process's streams through [`hijack`]. Only [`error_response`] maps an HTTP status and
//! its text to an error. [`lock`] makes sure that an engine has only one server.

pub mod archive;
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
pub mod lock;
pub mod metrics;
pub mod pull;
pub mod storage;

mod address;
mod demux;
mod error_response;
mod list_splitter;
mod other_store;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod version;
