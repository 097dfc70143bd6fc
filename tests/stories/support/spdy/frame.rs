//! Encodes and decodes SPDY frames.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::support::failure::{Outcome, ensure_eq, fail};

/// A SPDY frame from the other side.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A frame with data of a stream.
    Data { stream: u32, last: bool, bytes: Bytes },
    /// A frame that accepts a stream. The frame's header block is still compressed.
    Reply { stream: u32, last: bool, block: Vec<u8> },
    /// A frame that resets a stream.
    Reset { stream: u32 },
    /// A ping, or the answer to a ping.
    Ping(u32),
    /// A frame that says that the other side accepts no more streams.
    GoAway,
    /// A frame that the client ignores: SETTINGS or WINDOW_UPDATE.
    Other,
}

/// Reads the next frame, or returns `None` at the end of the connection.
pub(crate) async fn read<R: AsyncRead + Unpin>(from: &mut R) -> Outcome<Option<Frame>> {
    let mut head = [0; 8];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let word = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let (last, length) = (head[4] & FIN != 0, u32::from_be_bytes([0, head[5], head[6], head[7]]));
    let mut body = vec![0; usize::try_from(length)?];
    from.read_exact(&mut body).await?;
    if word & CONTROL == 0 {
        return Ok(Some(Frame::Data { stream: word, last, bytes: body.into() }));
    }
    ensure_eq!((word & !CONTROL) >> 16, 3_u32, "(the version of a control frame)");
    Ok(Some(match word & 0xffff {
        2 => Frame::Reply { stream: number(&body, 0)?, last, block: body[4..].to_vec() },
        3 => Frame::Reset { stream: number(&body, 0)? },
        6 => Frame::Ping(number(&body, 0)?),
        7 => Frame::GoAway,
        4 | 9 => Frame::Other,
        kind => fail!("a frame of kind {kind}, which no server sends"),
    }))
}

fn number(body: &[u8], place: usize) -> Outcome<u32> {
    match body.get(place..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => Ok(u32::from_be_bytes(*bytes)),
        None => fail!("a control frame of {} bytes", body.len()),
    }
}

/// A frame that opens a stream.
pub(crate) fn open(stream: u32, block: &[u8]) -> Vec<u8> {
    let mut body = stream.to_be_bytes().to_vec();
    // These fields say: no associated stream, highest priority, no credential slot.
    body.extend([0; 6]);
    body.extend(block);
    control(1, 0, &body)
}

/// A frame that resets a stream.
pub(crate) fn reset(stream: u32, status: u32) -> Vec<u8> {
    control(3, 0, &[stream.to_be_bytes(), status.to_be_bytes()].concat())
}

/// A ping, or the answer to a ping.
pub(crate) fn ping(id: u32) -> Vec<u8> {
    control(6, 0, &id.to_be_bytes())
}

/// A frame that says that this side accepts no more streams.
pub(crate) fn go_away() -> Vec<u8> {
    control(7, 0, &[0; 8])
}

/// A frame with data of a stream. `last` says whether it is the stream's last frame.
pub(crate) fn data(stream: u32, last: bool, bytes: &[u8]) -> Vec<u8> {
    frame(stream, if last { FIN } else { 0 }, bytes)
}

/// A control frame of any kind.
pub(crate) fn control(kind: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    frame(CONTROL | 3 << 16 | kind, flags, body)
}

fn frame(word: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).min(0x00ff_ffff);
    let mut bytes = Vec::with_capacity(8 + body.len());
    bytes.extend(word.to_be_bytes());
    bytes.extend((u32::from(flags) << 24 | length).to_be_bytes());
    bytes.extend(body);
    bytes
}

const CONTROL: u32 = 1 << 31;
const FIN: u8 = 1;
