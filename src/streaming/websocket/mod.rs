//! Kubernetes' streams over WebSocket: numbered channels, or a SPDY connection inside messages.
//!
//! dockbridge passes on each piece of a message as it arrives. `frame` and `message` do no I/O.

pub mod frame;
pub mod message;
pub mod socket;
pub mod tunnel;
