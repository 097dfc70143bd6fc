//! Exec and attach after the HTTP upgrade: up to four streams, over SPDY or WebSocket, to a process in a container.

pub mod client;
pub mod opening;
pub mod outcome;
pub mod session;
pub mod size;
