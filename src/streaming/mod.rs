//! Byte streams between a client and a container's process or a pod's ports.
//!
//! An RPC leaves a token and gets a URL; the client brings the token back over HTTP and speaks
//! SPDY/3.1 or WebSocket. Nothing here outlives its connection, and a peer that is slow, dead or
//! hostile costs one task and bounded memory.

pub mod spdy;
