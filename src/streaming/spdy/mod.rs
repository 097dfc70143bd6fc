//! The part of SPDY/3.1 that Kubernetes uses: framing and streams over one connection.
//!
//! The module imports only [`super::inbox`]. `frame`, `header` and `decode` do no I/O. `connection` runs
//! `frame_reader` and `frame_writer` in one task. `stream` is the interface for users.
//!
//! Features that Kubernetes clients do not use are missing: the server opens no streams and ignores
//! windows. TCP provides the back-pressure: if a reader is slow, the connection is not read.
//!
//! # Memory
//!
//! One connection has a window of input ([`super::inbox`]), a read buffer, three pieces that the peer has
//! not received yet, and the state for decompression (40 KiB). Each of its [`limits::STREAMS`] streams has
//! its headers until it is accepted.

pub mod connection;
mod control_frames;
mod decode;
mod dictionary;
mod frame;
mod frame_reader;
mod frame_writer;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod header;
mod limits;
pub mod stream;
