//! Byte streams between a client and a container's process or a pod's ports.
//!
//! An RPC leaves a token and gets a URL; the client brings the token back over HTTP and speaks
//! SPDY/3.1 or WebSocket. Nothing here outlives its connection, and a peer that is slow, dead or
//! hostile costs one task and bounded memory.

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
