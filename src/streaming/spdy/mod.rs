//! The part of SPDY/3.1 that Kubernetes uses: framing and streams over one connection.
//!
//! Outside of tests, this module imports only [`super::inbox`]. `frame`, `header` and `decode` do no I/O. `connection`
//! runs `frame_reader` and `frame_writer` in one task. `stream` is the interface for users of a stream.
//!
//! Only the client opens streams. Like the clients of Kubernetes, dockbridge ignores the windows of SPDY. TCP
//! limits the data: if the reader of a stream is slow, dockbridge does not read from the connection.
//!
//! # Memory
//!
//! A connection needs memory for a window of received data ([`super::inbox`]), a read buffer, three pieces of
//! data that the peer has not received yet, and the state of the decompression (40 KiB). Each stream of the
//! connection (at most [`limits::STREAMS`]) has its headers in memory until dockbridge accepts the stream.

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
