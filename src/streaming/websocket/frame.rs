//! WebSocket frames (RFC 6455): decodes a client's frames, and encodes the heads of dockbridge's. No I/O.
//!
//! The decoder buffers only heads and control frames, so a message may have any length.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::streaming::inbox::LARGEST_PIECE;

/// A frame of the client, or a piece of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A piece of a message; it may be empty. The message ends with its `last` piece.
    Data { is_text: bool, bytes: Bytes, last: bool },
    /// A ping, with the bytes for the pong.
    Ping(Bytes),
    /// The client ends the connection. The bytes, if any, contain a code and perhaps a reason.
    Close(Bytes),
}

/// The type of a frame that dockbridge sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    Text = 1,
    Binary = 2,
    Close = 8,
    Pong = 10,
}

/// The client sent an invalid frame or message, or a frame that is not allowed at this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client violated the WebSocket protocol")]
pub struct Malformed;

/// Decodes the frames of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    payload: Option<Payload>,
    /// Whether the current message is text. `None` if no message has begun, or the last one is complete.
    message: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Payload {
    opcode: u8,
    is_final: bool,
    left: u64,
    mask: [u8; 4],
}

impl Decoder {
    /// Removes the next frame, or piece of a frame, from `input`. `None` if there are too few bytes.
    ///
    /// # Errors
    /// Fails if the client violated the protocol. The bytes after the error cannot be decoded.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
        loop {
            let payload = match self.payload {
                Some(payload) => payload,
                None => match Payload::read(input)? {
                    Some(payload) => self.begin(payload)?,
                    None => return Ok(None),
                },
            };
            let is_control = payload.opcode >= CLOSE;
            let here = (input.len() as u64).min(payload.left);
            if here < payload.left && (is_control || here == 0) {
                self.payload = Some(payload);
                return Ok(None);
            }
            let (bytes, rest) = payload.take(input);
            self.payload = (rest.left > 0).then_some(rest);
            match (rest.opcode, self.message) {
                (CLOSE, _) if !may_close(&bytes) => return Err(Malformed),
                (CLOSE, _) => return Ok(Some(Frame::Close(bytes))),
                (PING, _) => return Ok(Some(Frame::Ping(bytes))),
                (CONTINUATION..CLOSE, Some(is_text)) => {
                    let last = rest.left == 0 && rest.is_final;
                    self.message = (!last).then_some(is_text);
                    return Ok(Some(Frame::Data { is_text, bytes, last }));
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, payload: Payload) -> Result<Payload, Malformed> {
        match (payload.opcode, self.message) {
            (CONTINUATION, Some(_)) => {}
            (TEXT | BINARY, None) => self.message = Some(payload.opcode == TEXT),
            (CLOSE | PING | PONG, _) if payload.is_final && payload.left <= LONGEST_CONTROL => {}
            _ => return Err(Malformed),
        }
        Ok(payload)
    }
}

impl Payload {
    /// Removes and decodes the head of a frame. `None` if the head is incomplete.
    fn read(input: &mut BytesMut) -> Result<Option<Self>, Malformed> {
        let Some([first, second]) = input.first_chunk().copied() else { return Ok(None) };
        if first & RESERVED != 0 || second & MASKED == 0 {
            return Err(Malformed);
        }
        let size = match second & !MASKED {
            LENGTH_16 => 2,
            LENGTH_64 => 8,
            _ => 0,
        };
        let mut head = input.as_ref();
        head.advance(2);
        if head.len() < size + MASK {
            return Ok(None);
        }
        let left = if size == 0 { u64::from(second & !MASKED) } else { head.get_uint(size) };
        let mask = head.get_u32().to_be_bytes();
        input.advance(2 + size + MASK);
        if left > i64::MAX.unsigned_abs() {
            return Err(Malformed);
        }
        Ok(Some(Self { opcode: first & OPCODE, is_final: first & FINAL != 0, left, mask }))
    }

    /// Removes at most [`LARGEST_PIECE`] bytes of the frame's payload from `input`, and unmasks them. Also
    /// returns the frame without the removed bytes.
    fn take(self, input: &mut BytesMut) -> (Bytes, Self) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(LARGEST_PIECE);
        let mut bytes = input.split_to(input.len().min(most));
        for (byte, mask) in bytes.iter_mut().zip(self.mask.iter().cycle()) {
            *byte ^= mask;
        }
        let mut mask = self.mask;
        mask.rotate_left(bytes.len() % MASK);
        let left = self.left - bytes.len() as u64;
        (bytes.freeze(), Self { left, mask, ..self })
    }
}

/// Whether a close frame may have this payload (RFC 6455, 5.5.1 and 7.4): empty, or an allowed code with any reason.
fn may_close(payload: &[u8]) -> bool {
    payload.is_empty()
        || payload.first_chunk().is_some_and(
            |code| matches!(u16::from_be_bytes(*code), 1000..=1003 | 1007..=1014 | 3000..=4999),
        )
}

/// Encodes the head of a frame that dockbridge sends. dockbridge does not split messages into several frames.
pub fn put_head(opcode: Opcode, length: usize, out: &mut BytesMut) {
    out.put_u8(FINAL | opcode as u8);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length), _) if length < LENGTH_16 => out.put_u8(length),
        (_, Ok(length)) => {
            out.put_u8(LENGTH_16);
            out.put_u16(length);
        }
        _ => {
            out.put_u8(LENGTH_64);
            out.put_u64(length as u64);
        }
    }
}

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = Opcode::Text as u8;
const BINARY: u8 = Opcode::Binary as u8;
const CLOSE: u8 = Opcode::Close as u8;
const PING: u8 = 9;
const PONG: u8 = Opcode::Pong as u8;
/// This value instead of a length means that the length follows in two bytes, or for [`LENGTH_64`] in eight.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;
const MASK: usize = 4;
const LONGEST_CONTROL: u64 = 125;

#[cfg(test)]
mod tests;
