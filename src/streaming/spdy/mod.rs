//! The part of SPDY/3.1 that Kubernetes uses: framing and streams over one connection.
//!
//! Of dockbridge's other modules, this module imports only [`super::inbox`] (tests and fuzzing aside). `connection`
//! runs `frame_reader` and `frame_writer` in one task. `stream` is the interface for users of a stream.
//!
//! Only the client opens streams. Like the clients of Kubernetes, dockbridge ignores SPDY's own flow control. TCP
//! limits the data: dockbridge does not read from a connection while unread data fills the window of [`super::inbox`].
//!
//! # Memory
//!
//! A connection needs memory for a window of received data ([`super::inbox`]), a read buffer, two pieces of data for
//! the peer, and the state of the decompression (40 KiB). Each stream of the connection (at most [`limits::STREAMS`])
//! needs memory for a piece that waits to be sent, and for its headers until dockbridge accepts or refuses the stream.

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
