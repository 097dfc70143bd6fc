//! The frames on the wire, and writing them. Pure.

use bytes::{BufMut, BytesMut};

/// A control frame's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    SynStream,
    SynReply,
    Reset,
    Settings,
    Ping,
    GoAway,
    Headers,
    WindowUpdate,
}

impl Kind {
    pub(super) const fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::SynStream,
            2 => Self::SynReply,
            3 => Self::Reset,
            4 => Self::Settings,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::Headers,
            9 => Self::WindowUpdate,
            _ => return None,
        })
    }

    pub(super) const fn code(self) -> u16 {
        match self {
            Self::SynStream => 1,
            Self::SynReply => 2,
            Self::Reset => 3,
            Self::Settings => 4,
            Self::Ping => 6,
            Self::GoAway => 7,
            Self::Headers => 8,
            Self::WindowUpdate => 9,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SynStream => "SYN_STREAM",
            Self::SynReply => "SYN_REPLY",
            Self::Reset => "RST_STREAM",
            Self::Settings => "SETTINGS",
            Self::Ping => "PING",
            Self::GoAway => "GOAWAY",
            Self::Headers => "HEADERS",
            Self::WindowUpdate => "WINDOW_UPDATE",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetReason {
    /// Nothing was done with it.
    Refused,
    /// It is not wanted any more.
    Cancel,
}

impl ResetReason {
    const fn code(self) -> u32 {
        match self {
            Self::Refused => 3,
            Self::Cancel => 5,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoAwayReason {
    Done,
    /// The peer broke the protocol.
    Broken,
}

/// Accepts a stream, without headers of our own. The zlib stream of all replies begins with the `first`.
///
/// The block is stored and not deflated, because the state of a deflater takes about 260 KiB
/// for each connection.
pub(super) fn reply(id: u32, first: bool, out: &mut BytesMut) {
    let start = if first { &ZLIB_START[..] } else { &[] };
    control(Kind::SynReply, 4 + start.len() + NO_HEADERS.len(), out);
    out.put_u32(id);
    out.put_slice(start);
    out.put_slice(&NO_HEADERS);
}

/// The beginning of a data frame; the payload follows.
pub(super) fn data(id: u32, last: bool, length: usize, out: &mut BytesMut) {
    out.put_u32(id & ID_MASK);
    out.put_u32(u32::from(last) << 24 | length_of(length));
}

/// Ends a stream in both directions.
pub(super) fn reset(id: u32, status: ResetReason, out: &mut BytesMut) {
    control(Kind::Reset, 8, out);
    out.put_u32(id);
    out.put_u32(status.code());
}

/// Asks for an echo, or is one.
pub(super) fn ping(id: u32, out: &mut BytesMut) {
    control(Kind::Ping, 4, out);
    out.put_u32(id);
}

/// GOAWAY: streams above `last` were not handled, and the connection ends.
pub(super) fn go_away(last: u32, farewell: GoAwayReason, out: &mut BytesMut) {
    control(Kind::GoAway, 8, out);
    out.put_u32(last);
    out.put_u32(match farewell {
        GoAwayReason::Done => 0,
        GoAwayReason::Broken => 1,
    });
}

/// The only version there is: 3.1 differs from 3 in windows alone.
pub(super) const VERSION: u16 = 3;
/// Every frame begins with this much.
pub(super) const HEAD: usize = 8;
/// The lower bits of a stream's number; the highest marks control frames.
pub(super) const ID_MASK: u32 = 0x7fff_ffff;
/// The sender sends nothing more on the stream.
pub(super) const FLAG_LAST: u8 = 0x01;
/// The receiver of the stream's first frame is to send nothing on it.
pub(super) const FLAG_ONE_WAY: u8 = 0x02;

/// RFC 1950: deflate with a window of 32 KiB and without a dictionary.
const ZLIB_START: [u8; 2] = [0x78, 0x01];
/// RFC 1951: a stored block with the number of headers, and the empty one that flushes it.
const NO_HEADERS: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

fn control(kind: Kind, length: usize, out: &mut BytesMut) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind.code());
    out.put_u32(length_of(length));
}

/// As the lower three bytes of a number; what we write is far below their limit.
fn length_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or_default() & 0x00ff_ffff
}
