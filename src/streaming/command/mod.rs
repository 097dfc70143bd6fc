//! Exec and attach after the HTTP upgrade: the same five streams to the client over SPDY and WebSocket,
//! connected to the engine.

pub mod client;
pub mod opening;
pub mod outcome;
pub mod session;
pub mod size;
