//! Kubernetes' streams over WebSocket: numbered channels, or a SPDY connection within messages.
//!
//! The framing is tungstenite's; what a message means is `message`, which is pure.

pub mod message;
pub mod socket;
pub mod tunnel;
