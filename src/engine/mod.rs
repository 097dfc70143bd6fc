//! Sends requests to the Docker Engine, and decodes its answers into the types of `model`.
//!
//! This module knows HTTP and Docker's JSON, but not the CRI. Start with [`client`]: one client on the engine's
//! socket makes the requests, in the API [`version`] that a ping has negotiated. [`api_path`] builds the paths.
//! [`stream`] reads the messages of a pull, load or event stream, and [`hijack`] handles hijacked connections to a
//! process's streams. Only [`error_response`] maps an HTTP status and its text to an error. [`lock`] makes sure
//! that only one dockbridge serves an engine.

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

mod api_path;
mod demux;
mod error_response;
mod list_splitter;
mod other_store;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod version;
