//! Frames of an output stream: stream, length, bytes.
//!
//! A terminal's output comes as it is; everything else in frames with a header of 8 bytes
//! (stream, three zeros, length in network order). Which of the two it is, the caller knows: it
//! is never guessed from the content, where a terminal's first byte could be anything. Long
//! frames are handed on in pieces as they come, so a frame may be of any length.

use bytes::{Buf, Bytes, BytesMut};

use crate::model::stream::Source;

/// Cuts the bytes of one connection into pieces of output.
#[derive(Debug)]
pub(super) struct Demux {
    /// None for a terminal, whose bytes have no frames.
    frame: Option<Frame>,
    pub(super) pending: BytesMut,
}

/// Where in the frames we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Before a header.
    Header,
    /// So many bytes of a frame are still to come.
    Payload(Source, usize),
    /// The engine's own complaint of this length.
    Complaint(usize),
}

/// Why the bytes cannot be cut further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// They are no frames: this is wrong with them.
    Garbled(String),
    /// The engine reports an error within the stream.
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

    /// The next piece; none when more bytes are needed. Never empty.
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

    /// What is here of a frame of which `length` bytes are to come.
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
        _ => Err(Stop::Garbled(format!(
            "its output holds no frame where one must begin: {header:02x?}"
        ))),
    }
}

const HEADER: usize = 8;

/// Longer ones are not kept in memory to be read.
const LONGEST_COMPLAINT: usize = 64 * 1024;
