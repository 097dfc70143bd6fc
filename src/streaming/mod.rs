//! Byte streams between a client and the process of a container, or between a client and the ports of a pod.
//!
//! The CRI calls Exec, Attach and PortForward store their request under a token and return a URL. The client presents
//! the token over HTTP and then speaks SPDY/3.1 or WebSocket. dockbridge uses only limited memory for a slow, dead or
//! hostile client.

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
