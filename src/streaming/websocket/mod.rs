//! Kubernetes' streams over WebSocket: numbered channels, or a SPDY connection within messages.
//!
//! Nothing collects a whole message: a client may send any length, and a piece is handed on as it comes.
//! `frame` and `message` are pure.

pub mod frame;
pub mod message;
pub mod socket;
pub mod tunnel;
