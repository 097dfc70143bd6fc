//! Kubernetes' streams over WebSocket: numbered channels, or a SPDY connection inside messages.
//!
//! dockbridge passes on each piece of a message as it arrives.

pub mod frame;
pub mod message;
pub mod socket;
pub mod tunnel;
