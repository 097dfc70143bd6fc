//! SPDY/3.1, as much of it as Kubernetes speaks: framing and streams over one connection.
//!
//! Imports nothing of ours but [`super::inbox`]. `frame`, `header` and `decode` are pure;
//! `connection` runs `frame_reader` and `frame_writer` on one task; `stream` is what its users hold.
//!
//! What Kubernetes' peers do not do is not here: we open no streams, and windows are ignored.
//! Back-pressure is TCP's: when a reader lags, the connection stops reading.
//!
//! # Memory
//!
//! One connection holds a window of input ([`super::inbox`]), a read buffer, three pieces that the peer
//! has not taken yet, and an inflater (40 KiB). Its [`limits::STREAMS`] streams hold their headers until
//! they are accepted.

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
mod limits;
pub mod stream;
