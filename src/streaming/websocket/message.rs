//! A WebSocket message: a channel and bytes for it. Pure.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{WebSocketConfig, frame::Utf8Bytes},
};

use crate::streaming::upgrade::Encoding;

/// How messages are to be read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// How bytes travel.
    pub encoding: Encoding,
    /// Whether a channel can be closed by a message (v5).
    pub closes: bool,
}

/// A message of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// Bytes for a channel; perhaps none.
    Data(u8, Bytes),
    /// Nothing more will come on a channel.
    End(u8),
    Nothing,
}

/// A message that is none of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Format {
    /// How many channels the first byte of a message can distinguish.
    pub const fn channels(self) -> usize {
        match self.encoding {
            // The highest number is the close signal.
            Encoding::Binary => CLOSE as usize,
            // ASCII from the digit 0 on.
            Encoding::Base64 => (128 - ZERO) as usize,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Base64 that is none.
    pub fn read(self, message: Message) -> Result<ClientMessage, Malformed> {
        let mut bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text),
            _ => return Ok(ClientMessage::Nothing),
        };
        let Some(&first) = bytes.first() else { return Ok(ClientMessage::Nothing) };
        let payload = bytes.split_off(1);
        match self.encoding {
            Encoding::Binary if self.closes && first == CLOSE => Ok(payload
                .first()
                .map_or(ClientMessage::Nothing, |channel| ClientMessage::End(*channel))),
            Encoding::Binary => Ok(ClientMessage::Data(first, payload)),
            Encoding::Base64 => {
                let channel = first.checked_sub(ZERO).ok_or(Malformed)?;
                let plain = STANDARD.decode(payload).map_err(|_| Malformed)?;
                Ok(ClientMessage::Data(channel, plain.into()))
            }
        }
    }

    /// Writes a message.
    pub fn write(self, channel: u8, bytes: &[u8]) -> Message {
        match self.encoding {
            Encoding::Binary => {
                let mut message = BytesMut::with_capacity(bytes.len() + 1);
                message.put_u8(channel);
                message.put_slice(bytes);
                Message::Binary(message.freeze())
            }
            Encoding::Base64 => {
                let mut text = String::from(char::from(ZERO.saturating_add(channel)));
                STANDARD.encode_string(bytes, &mut text);
                Message::Text(Utf8Bytes::from(text))
            }
        }
    }
}

/// Limits of a connection: what one message may cost us.
pub fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(LARGEST_MESSAGE))
        .max_frame_size(Some(LARGEST_MESSAGE))
}

/// The largest message taken, in bytes. Clients send tens of KiB; some send what they have.
pub const LARGEST_MESSAGE: usize = 4 << 20;
const READ_BUFFER: usize = 64 << 10;
/// v5: the message's second byte is the number of the channel that ends.
const CLOSE: u8 = 255;
const ZERO: u8 = b'0';

#[cfg(test)]
mod tests;
