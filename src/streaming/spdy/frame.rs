//! The frames of the SPDY protocol, and their encoding. No I/O.

use bytes::{BufMut, BytesMut};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Kind {
    SynStream = 1,
    SynReply = 2,
    Reset = 3,
    Settings = 4,
    Ping = 6,
    GoAway = 7,
    Headers = 8,
    WindowUpdate = 9,
}

impl Kind {
    pub(super) fn from_code(code: u16) -> Option<Self> {
        use Kind::{GoAway, Headers, Ping, Reset, Settings, SynReply, SynStream, WindowUpdate};
        [SynStream, SynReply, Reset, Settings, Ping, GoAway, Headers, WindowUpdate]
            .into_iter()
            .find(|kind| *kind as u16 == code)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ResetReason {
    Refused = 3,
    Cancel = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum GoAwayReason {
    Done = 0,
    Broken = 1,
}

/// The peer violated the protocol or a limit. dockbridge ends the connection, whose state is now unreliable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// Encodes a reply that accepts a stream and has no headers. The header blocks of a connection's replies form one zlib
/// stream, which starts in the `first` reply. The blocks are stored uncompressed, because a compressor needs about
/// 260 KiB for each connection.
pub(super) fn reply(id: u32, first: bool, out: &mut BytesMut) {
    let start = if first { &ZLIB_START[..] } else { &[] };
    control(Kind::SynReply, 4 + start.len() + NO_HEADERS.len(), out);
    out.put_u32(id);
    out.put_slice(start);
    out.put_slice(&NO_HEADERS);
}

/// Encodes the head of a data frame, without the payload.
pub(super) fn data(id: u32, last: bool, length: usize, out: &mut BytesMut) {
    out.put_u32(id & ID_MASK);
    out.put_u32(u32::from(last) << 24 | length_of(length));
}

/// Encodes a reset, which ends a stream in both directions.
pub(super) fn reset(id: u32, status: ResetReason, out: &mut BytesMut) {
    control(Kind::Reset, 8, out);
    out.put_u32(id);
    out.put_u32(status as u32);
}

/// Encodes a ping, or the answer to a ping.
pub(super) fn ping(id: u32, out: &mut BytesMut) {
    control(Kind::Ping, 4, out);
    out.put_u32(id);
}

/// Encodes GOAWAY: the connection ends, and dockbridge has not processed streams with ids above `last`.
pub(super) fn go_away(last: u32, reason: GoAwayReason, out: &mut BytesMut) {
    control(Kind::GoAway, 8, out);
    out.put_u32(last);
    out.put_u32(reason as u32);
}

/// The version number in frames of SPDY/3.1, which is also that of SPDY/3.
pub(super) const VERSION: u16 = 3;
/// The length of every frame's head in bytes.
pub(super) const HEAD: usize = 8;
/// Mask for the stream id. The highest bit of a frame's head is not part of the id, but marks control frames.
pub(super) const ID_MASK: u32 = 0x7fff_ffff;
/// Flag: the sender of the frame sends nothing more on the stream.
pub(super) const FLAG_LAST: u8 = 0x01;
/// Flag in the first frame of a stream: the receiver of this frame must not send data on the stream.
pub(super) const FLAG_ONE_WAY: u8 = 0x02;

/// Header of a zlib stream (RFC 1950): deflate with a window of 32 KiB and without a dictionary.
const ZLIB_START: [u8; 2] = [0x78, 0x01];
/// A header block without headers (RFC 1951): a stored block with the number of headers, and an empty block.
const NO_HEADERS: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

fn control(kind: Kind, length: usize, out: &mut BytesMut) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind as u16);
    out.put_u32(length_of(length));
}

fn length_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or_default() & 0x00ff_ffff
}
