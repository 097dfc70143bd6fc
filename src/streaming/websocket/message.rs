//! WebSocket messages: a message has the number of a channel and bytes for this channel, or closes a channel
//! (v5). No I/O.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::frame::{Malformed, Opcode, put_head};
use crate::streaming::upgrade::Encoding;

/// The format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub encoding: Encoding,
    /// Whether a message can close a channel (v5).
    pub closes: bool,
}

/// A message from the client, or a piece of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// Data for a channel; it may be empty.
    Data(u8, Bytes),
    /// The client closes a channel, on which it sends nothing more.
    End(u8),
    Nothing,
}

/// Decodes the messages of one connection.
#[derive(Debug)]
pub struct MessageReader {
    format: Format,
    /// `None` until a message's first byte has arrived.
    target: Option<Target>,
    /// Base64 characters that do not form a complete group yet.
    rest: BytesMut,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Channel(u8),
    /// The message closes a channel. The next byte is the number of this channel.
    Close,
    Nothing,
    /// The base64 of the message has ended with padding.
    Padded,
}

impl Format {
    /// Number of channels that dockbridge can use. The first byte of a message with data names the channel.
    pub const fn channels(self) -> usize {
        match self.encoding {
            // dockbridge does not use channel 255: in v5, this byte means that the message closes a channel.
            Encoding::Binary => CLOSE as usize,
            // The channels are named by the ASCII characters from the digit 0 on.
            Encoding::Base64 => (128 - ZERO) as usize,
        }
    }

    /// Encodes a message. Returns the message's head, which includes the channel, and the message's payload.
    pub fn write(self, channel: u8, bytes: Bytes) -> (Bytes, Bytes) {
        let (opcode, channel, payload) = match self.encoding {
            Encoding::Binary => (Opcode::Binary, channel, bytes),
            Encoding::Base64 => {
                (Opcode::Text, ZERO.saturating_add(channel), STANDARD.encode(bytes).into())
            }
        };
        let mut head = BytesMut::new();
        put_head(opcode, payload.len() + 1, &mut head);
        head.put_u8(channel);
        (head.freeze(), payload)
    }
}

impl MessageReader {
    /// Creates the reader for a new connection.
    pub fn new(format: Format) -> Self {
        Self { format, target: None, rest: BytesMut::new() }
    }

    /// Decodes a piece of a message. `last` means that this piece is the last. In the
    /// base64 format, fails if the channel or the base64 is invalid.
    pub fn read(&mut self, mut bytes: Bytes, last: bool) -> Result<ClientMessage, Malformed> {
        let target = match self.target {
            Some(target) => target,
            None if bytes.is_empty() => return Ok(ClientMessage::Nothing),
            None => self.target(bytes.get_u8())?,
        };
        let (said, target) = match (target, bytes.first()) {
            (Target::Close, Some(&channel)) => (ClientMessage::End(channel), Target::Nothing),
            (Target::Channel(channel), _) if self.format.encoding == Encoding::Base64 => {
                let (plain, is_padded) = self.decode(&bytes, last)?;
                let target = if is_padded { Target::Padded } else { target };
                (ClientMessage::Data(channel, plain), target)
            }
            (Target::Channel(channel), _) => (ClientMessage::Data(channel, bytes), target),
            (Target::Padded, Some(_)) => return Err(Malformed),
            (target, _) => (ClientMessage::Nothing, target),
        };
        self.target = (!last).then_some(target);
        Ok(said)
    }

    fn target(&self, first: u8) -> Result<Target, Malformed> {
        match self.format.encoding {
            Encoding::Binary if self.format.closes && first == CLOSE => Ok(Target::Close),
            Encoding::Binary => Ok(Target::Channel(first)),
            Encoding::Base64 => first.checked_sub(ZERO).map(Target::Channel).ok_or(Malformed),
        }
    }

    /// Decodes all complete groups of four base64 characters, and at the end of a message all characters.
    /// Also returns whether there is padding.
    fn decode(&mut self, bytes: &[u8], last: bool) -> Result<(Bytes, bool), Malformed> {
        self.rest.extend_from_slice(bytes);
        let whole = if last { self.rest.len() } else { self.rest.len() / 4 * 4 };
        let groups = self.rest.split_to(whole);
        let plain = STANDARD.decode(&groups).map_err(|_| Malformed)?;
        let is_padded = groups.ends_with(b"=");
        if is_padded && !self.rest.is_empty() {
            return Err(Malformed);
        }
        Ok((plain.into(), is_padded))
    }
}

/// First byte of a v5 message that closes a channel.
const CLOSE: u8 = 255;
const ZERO: u8 = b'0';

#[cfg(test)]
mod tests;
