//! Exec and attach after the HTTP upgrade: up to five streams, over SPDY or WebSocket, to a process in the engine.

pub mod client;
pub mod opening;
pub mod outcome;
pub mod session;
pub mod size;
