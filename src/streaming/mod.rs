//! Byte streams between a client and a container's process or a pod's ports.
//!
//! An RPC stores a request under a token and returns a URL. The client presents the token over HTTP and
//! then speaks SPDY/3.1 or WebSocket. All state ends with its connection. A slow, dead or hostile client
//! costs one task and a limited amount of memory.

mod attach;
pub mod channel;
pub mod client_connection;
pub mod command;
mod dispatch;
pub mod error;
mod exec;
pub mod forward;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod http_handler;
pub mod inbox;
pub mod metrics;
mod places;
mod ports;
pub mod server;
pub mod service;
pub mod spdy;
pub mod token;
pub mod upgrade;
pub mod websocket;
