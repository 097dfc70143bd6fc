//! SPDY/3.1, as much of it as Kubernetes speaks: framing and streams over one connection.
//!
//! Imports nothing of ours: it could be a crate.
