//! Frames of an output stream: stream, length, bytes.
//!
//! The output of a terminal is sent unchanged. Other output is sent in frames with a header of 8 bytes
//! (stream, three zeros, length in network order). The caller knows which of the two it is. It cannot be
//! derived from the content, because a terminal's output may look like a frame. Long frames are passed on
//! in pieces as they arrive, so a frame may have any length.

use bytes::{Buf, Bytes, BytesMut};

use crate::model::stream::Source;

/// Cuts the bytes of one connection into pieces of output.
#[derive(Debug)]
pub(super) struct Demux {
    /// None for a terminal, whose bytes have no frames.
    frame: Option<Frame>,
    pub(super) pending: BytesMut,
}

/// The position in the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Before a header.
    Header,
    /// The number of bytes of the frame that are left.
    Payload(Source, usize),
    /// An error message of the engine with this length.
    Complaint(usize),
}

/// Why the bytes cannot be split further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes are not frames, for this reason.
    Garbled(String),
    /// The engine reported an error in the stream.
    Complaint(String),
}

impl Demux {
    pub(super) fn new(tty: bool) -> Self {
        Self { frame: if tty { None } else { Some(Frame::Header) }, pending: BytesMut::new() }
    }

    /// Whether the stream may end here.
    pub(super) fn is_between_frames(&self) -> bool {
        matches!(self.frame, None | Some(Frame::Header)) && self.pending.is_empty()
    }

    /// The next piece. None if more bytes are needed. Never empty.
    pub(super) fn next(&mut self) -> Result<Option<(Source, Bytes)>, Stop> {
        while !self.pending.is_empty() {
            match self.frame {
                None => return Ok(Some((Source::Stdout, self.pending.split().freeze()))),
                Some(Frame::Payload(source, length)) => {
                    return Ok(Some((source, self.payload(source, length))));
                }
                Some(Frame::Complaint(length)) if self.pending.len() < length => return Ok(None),
                Some(Frame::Complaint(length)) => {
                    let text = self.pending.split_to(length);
                    return Err(Stop::Complaint(String::from_utf8_lossy(&text).trim().to_owned()));
                }
                Some(Frame::Header) => {
                    let Some(header) = self.pending.first_chunk::<HEADER>().copied() else {
                        return Ok(None);
                    };
                    self.pending.advance(HEADER);
                    self.frame = Some(frame(header)?);
                }
            }
        }
        Ok(None)
    }

    /// The available part of a frame with `length` bytes left.
    fn payload(&mut self, source: Source, length: usize) -> Bytes {
        let here = length.min(self.pending.len());
        let left = length - here;
        let next = if left == 0 { Frame::Header } else { Frame::Payload(source, left) };
        self.frame = Some(next);
        self.pending.split_to(here).freeze()
    }
}

fn frame(header: [u8; HEADER]) -> Result<Frame, Stop> {
    let [stream, zeros @ .., a, b, c, d] = header;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    match (stream, zeros, length) {
        (1..=3, [0, 0, 0], 0) => Ok(Frame::Header),
        (1, [0, 0, 0], _) => Ok(Frame::Payload(Source::Stdout, length)),
        (2, [0, 0, 0], _) => Ok(Frame::Payload(Source::Stderr, length)),
        (3, [0, 0, 0], 1..=LONGEST_COMPLAINT) => Ok(Frame::Complaint(length)),
        _ => Err(Stop::Garbled(format!("the output has no valid frame header: {header:02x?}"))),
    }
}

const HEADER: usize = 8;

/// Longer error messages are not kept in memory.
const LONGEST_COMPLAINT: usize = 64 * 1024;
