//! Decodes bytes into frames. The bytes may arrive in any pieces. No I/O.
//!
//! The decoder buffers only control frames, passes on data in pieces, and skips SETTINGS and frames of unknown types.

use bytes::{Buf, Bytes, BytesMut};

use super::{
    frame::{FLAG_LAST, FLAG_ONE_WAY, HEAD, ID_MASK, Kind, Malformed, VERSION},
    header::{Headers, Inflater},
    limits::HEADER_BYTES,
};
use crate::streaming::inbox::LARGEST_PIECE;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Open(SynStream),
    Reset(u32),
    Ping(u32),
    /// A piece of a data frame. Only a piece with `last` may be empty.
    Data {
        id: u32,
        bytes: Bytes,
        last: bool,
    },
}

/// A stream that the peer opens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SynStream {
    pub(super) id: u32,
    pub(super) last: bool,
    /// Whether dockbridge must send no data on the stream.
    pub(super) one_way: bool,
    pub(super) headers: Headers,
}

/// Decodes the bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: DecodeState,
    inflater: Inflater,
}

#[derive(Clone, Copy, Debug, Default)]
enum DecodeState {
    #[default]
    Head,
    /// In a control frame, which is decoded once it is complete.
    Control { kind: Kind, flags: u8, length: usize },
    /// In a data frame, of which `left` bytes were not passed on yet.
    Data { id: u32, left: usize, last: bool },
}

impl Decoder {
    /// Removes the next frame, or piece of a data frame, from `input`. `None` if there are too few bytes.
    ///
    /// # Errors
    /// Fails if the peer violated the protocol or a limit. The bytes after the error cannot be decoded.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
        loop {
            let found = match self.state {
                DecodeState::Head if input.len() < HEAD => return Ok(None),
                DecodeState::Head => {
                    self.state = head(&input.split_to(HEAD))?;
                    None
                }
                DecodeState::Control { length, .. } if input.len() < length => return Ok(None),
                DecodeState::Control { kind, flags, length } => {
                    self.state = DecodeState::Head;
                    self.control(kind, flags, &input.split_to(length))?
                }
                DecodeState::Data { left, .. } if left > 0 && input.is_empty() => return Ok(None),
                DecodeState::Data { id, left, last } => self.data(id, left, last, input),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Decodes a complete control frame. Also decompresses unused headers, because they change the compression's state.
    fn control(
        &mut self,
        kind: Kind,
        flags: u8,
        mut body: &[u8],
    ) -> Result<Option<Frame>, Malformed> {
        let number = body.try_get_u32().unwrap_or_default();
        let id = number & ID_MASK;
        Ok(match kind {
            Kind::SynStream => {
                // dockbridge ignores the fields for the associated stream, the priority and the slot.
                let headers = self.block(body.get(6..).unwrap_or_default())?;
                let (last, one_way) = (flags & FLAG_LAST != 0, flags & FLAG_ONE_WAY != 0);
                Some(Frame::Open(SynStream { id, last, one_way, headers }))
            }
            Kind::SynReply | Kind::Headers => {
                self.block(body)?;
                None
            }
            Kind::Reset => Some(Frame::Reset(id)),
            Kind::Ping => Some(Frame::Ping(number)),
            Kind::GoAway | Kind::WindowUpdate | Kind::Settings => None,
        })
    }

    fn block(&mut self, block: &[u8]) -> Result<Headers, Malformed> {
        Headers::parse(&self.inflater.inflate(block)?)
    }

    fn data(&mut self, id: u32, left: usize, last: bool, input: &mut BytesMut) -> Option<Frame> {
        let bytes = input.split_to(left.min(input.len()).min(LARGEST_PIECE)).freeze();
        let left = left - bytes.len();
        self.state =
            if left == 0 { DecodeState::Head } else { DecodeState::Data { id, left, last } };
        let last = last && left == 0;
        let is_wanted = id != NO_STREAM && (last || !bytes.is_empty());
        is_wanted.then_some(Frame::Data { id, bytes, last })
    }
}

fn head(mut head: &[u8]) -> Result<DecodeState, Malformed> {
    let (first, second) = (head.get_u32(), head.get_u32());
    let [flags, ..] = second.to_be_bytes();
    let length = usize::try_from(second & 0x00ff_ffff).unwrap_or(usize::MAX);
    if first & !ID_MASK == 0 {
        return Ok(DecodeState::Data { id: first, left: length, last: flags & FLAG_LAST != 0 });
    }
    let [high, low, kind_high, kind_low] = (first & ID_MASK).to_be_bytes();
    if u16::from_be_bytes([high, low]) != VERSION {
        return Err(VERSION_UNKNOWN);
    }
    let skipped = DecodeState::Data { id: NO_STREAM, left: length, last: false };
    let Some(kind) = Kind::from_code(u16::from_be_bytes([kind_high, kind_low])) else {
        return Ok(skipped);
    };
    let allowed = match kind {
        Kind::SynStream => 10..=10 + LONGEST_BLOCK,
        Kind::SynReply | Kind::Headers => 4..=4 + LONGEST_BLOCK,
        Kind::Ping => 4..=4,
        Kind::Reset | Kind::GoAway | Kind::WindowUpdate => 8..=8,
        Kind::Settings => return Ok(skipped),
    };
    if allowed.contains(&length) {
        return Ok(DecodeState::Control { kind, flags, length });
    }
    Err(WRONG_LENGTH)
}

const VERSION_UNKNOWN: Malformed = Malformed("a control frame has a SPDY version other than 3");
const WRONG_LENGTH: Malformed = Malformed("the length of a control frame does not fit its type");
/// The decoder skips SETTINGS and frames of unknown types as if they were data for this stream id, which no stream has.
const NO_STREAM: u32 = 0;
/// Maximum size of a compressed header block in bytes. Compression makes incompressible data slightly longer.
const LONGEST_BLOCK: usize = HEADER_BYTES + HEADER_BYTES / 8 + HEAD;

#[cfg(test)]
mod tests;
