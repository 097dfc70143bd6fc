//! Exec and attach, after the HTTP upgrade: the same five streams to the client on either transport,
//! and an engine's connection behind them.

pub mod channels;
pub mod client;
pub mod outcome;
pub mod session;
pub mod size;
pub mod spdy;
