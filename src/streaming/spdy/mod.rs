//! SPDY/3.1, as much of it as Kubernetes speaks: framing and streams over one connection.
//!
//! Imports nothing of ours: it could be a crate. `frame`, `header` and `decode` are pure;
//! `connection` runs `frame_reader` and `frame_writer` on one task; `stream` is what its users hold.
//!
//! What Kubernetes' peers do not do is not here: we open no streams, and windows are ignored.
//! Back-pressure is TCP's: when a reader lags, the connection stops reading.
//!
//! # Memory
//!
//! One connection holds at most [`limits::Limits::queued`] bytes that its users are not done
//! with, and as much again in buffers that pieces of them share (4 MiB each); the headers of
//! [`limits::Limits::streams`] streams not accepted yet (8 MiB); 1 MiB that the peer
//! has not taken yet; a read buffer; and two compression states of about 300 KiB together. What
//! its users keep for themselves comes on top.

pub mod connection;
mod control_frames;
mod decode;
mod dictionary;
mod error;
mod frame;
mod frame_reader;
mod frame_writer;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod header;
pub mod limits;
pub mod stream;
