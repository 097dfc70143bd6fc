//! Splits the output of a process into stdout and stderr.
//!
//! The engine sends the output of a terminal unchanged, and other output in frames with a header of 8
//! bytes (stream, three zeros, length in network order). The caller must say which form to expect, because a
//! terminal's output may look like a frame. Frames of output may have any length, and are returned in pieces.

use bytes::{Buf, Bytes, BytesMut};

use crate::model::stream::Source;

/// Cuts the bytes of one connection into pieces of output.
#[derive(Debug)]
pub(super) struct Demux {
    /// The position in the current frame. None for a terminal, whose output has no frames.
    frame: Option<Frame>,
    pub(super) pending: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// The next byte is the first byte of a frame's header.
    Header,
    /// In the content of a frame: the stream, and how many bytes of the frame are left.
    Payload(Source, usize),
    /// In a frame with an error message of the engine: the length of the message.
    Complaint(usize),
}

/// Why no further output can be read from the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Garbled(String),
    /// The engine reported an error in the stream.
    Complaint(String),
}

impl Demux {
    pub(super) fn new(tty: bool) -> Self {
        Self { frame: if tty { None } else { Some(Frame::Header) }, pending: BytesMut::new() }
    }

    /// Whether the stream may end here, because no frame is incomplete.
    pub(super) fn is_between_frames(&self) -> bool {
        matches!(self.frame, None | Some(Frame::Header)) && self.pending.is_empty()
    }

    /// The next piece of output. None if the next piece needs more bytes. A piece is never empty.
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

    /// Takes the available bytes of a frame that has `length` bytes left.
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
        _ => Err(Stop::Garbled(format!("the output has an invalid frame header: {header:02x?}"))),
    }
}

const HEADER: usize = 8;

/// How many bytes an error message in the stream may have. A frame with a longer error message is invalid.
const LONGEST_COMPLAINT: usize = 64 * 1024;
