//! Two logical connections share a plugin's socket, one for each direction of calls. A frame consists of four
//! bytes of connection id, four bytes of length (both big-endian), and the payload.

use thiserror::Error;

/// One of the two logical connections. The value is the connection's id in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Channel {
    /// On this connection dockbridge calls, and the plugin answers.
    Plugin = 1,
    /// On this connection the plugin calls, and dockbridge answers.
    Runtime = 2,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ProtocolError {
    #[error("the plugin sent a frame for connection {0}, but NRI has only connections 1 and 2")]
    Connection(u32),
    #[error("the plugin announced a message of {0} bytes; the limit is {MESSAGE_LIMIT}")]
    Length(u32),
    #[error("the plugin sent an unexpected ttrpc message of type {kind} for stream {stream}")]
    Unexpected { kind: u8, stream: u32 },
    #[error("the plugin sent a message with more than {MOST_ENTRIES} fields or list items")]
    Entries,
    #[error("the plugin sent a message that cannot be decoded")]
    Message,
}

/// Separates the received bytes of the two logical connections. Does not buffer payloads.
#[derive(Debug, Default)]
pub(super) struct Demux {
    header: Vec<u8>,
    /// The connection of the current frame and the missing bytes of its payload, once the header is complete.
    frame: Option<(Channel, usize)>,
}

impl Demux {
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut deliver: impl FnMut(Channel, &[u8]) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        while !bytes.is_empty() {
            let Some((channel, left)) = self.frame else {
                let (more, rest) = bytes.split_at(bytes.len().min(HEADER - self.header.len()));
                self.header.extend_from_slice(more);
                bytes = rest;
                self.frame = self.begun()?;
                continue;
            };
            let (piece, rest) = bytes.split_at(bytes.len().min(left));
            deliver(channel, piece)?;
            bytes = rest;
            self.frame = Some((channel, left - piece.len())).filter(|(_, left)| *left > 0);
        }
        Ok(())
    }

    /// The connection and the payload's length, or `None` if the header is incomplete or the frame has no payload.
    fn begun(&mut self) -> Result<Option<(Channel, usize)>, ProtocolError> {
        let [a, b, c, d, e, f, g, h] = *self.header.as_slice() else { return Ok(None) };
        self.header.clear();
        let (id, length) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let channel = [Channel::Plugin, Channel::Runtime].into_iter().find(|it| *it as u32 == id);
        let channel = channel.ok_or(ProtocolError::Connection(id))?;
        let size = usize::try_from(length).map_err(|_| ProtocolError::Length(length))?;
        if size > MESSAGE_LIMIT + MESSAGE_HEADER {
            return Err(ProtocolError::Length(length));
        }
        Ok((size > 0).then_some((channel, size)))
    }
}

/// Splits a message into frames. A plugin in Go fails if a frame's payload does not fit into the plugin's buffer, which
/// has 4096 bytes for the first frame of a message, and then room for the rest.
pub(super) fn frames(channel: Channel, message: &[u8]) -> Vec<u8> {
    let (first, rest) = message.split_at(message.len().min(FIRST_FRAME));
    let mut out = Vec::with_capacity(message.len() + 2 * HEADER);
    for payload in [first, rest].into_iter().filter(|payload| !payload.is_empty()) {
        out.extend_from_slice(&(channel as u32).to_be_bytes());
        out.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(payload);
    }
    out
}

const HEADER: usize = 8;
const FIRST_FRAME: usize = 4096;
pub(super) const MESSAGE_HEADER: usize = 10;
/// Maximum length of a ttrpc message without its header.
pub(super) const MESSAGE_LIMIT: usize = 4 << 20;
/// Maximum number of entries in a message of a plugin: several for each container that a node can have.
pub(super) const MOST_ENTRIES: usize = 16 << 10;
