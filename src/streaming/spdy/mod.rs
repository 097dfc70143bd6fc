//! SPDY/3.1, as much of it as Kubernetes speaks: framing and streams over one connection.
//!
//! Imports nothing of ours: it could be a crate. `frame`, `header` and `decode` are pure;
//! `connection` runs `read` and `write` on one task; `stream` is what its users hold.
//!
//! What Kubernetes' peers do not do is not here: we open no streams, and windows are ignored.
//! Back-pressure is TCP's: when a reader lags, the connection stops reading.
//!
//! # Memory
//!
//! One connection holds at most [`connection::Limits::queued`] bytes that its users have not
//! taken yet (sixteen times that in the worst case, since a piece may keep the buffer it was
//! read into), 1 MiB that the peer has not taken yet, a read buffer, one header block, and two
//! compression states of about 300 KiB together.

pub mod connection;
mod decode;
mod dictionary;
mod error;
mod frame;
mod header;
mod orders;
mod read;
pub mod stream;
mod write;
