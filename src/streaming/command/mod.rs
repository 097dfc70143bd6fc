//! Exec and attach after the HTTP upgrade: streams over SPDY or WebSocket between a client and a process.

pub mod client;
pub mod opening;
pub mod outcome;
pub mod session;
pub mod size;
