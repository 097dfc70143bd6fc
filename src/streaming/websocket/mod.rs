//! Kubernetes' streams over WebSocket: numbered channels, or a SPDY connection inside messages.
//!
//! Messages are never collected: a client may send any length, and each piece is passed on as it arrives.
//! `frame` and `message` do no I/O.

pub mod frame;
pub mod message;
pub mod socket;
pub mod tunnel;
