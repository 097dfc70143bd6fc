//! Messages of a container's log in the engine's format: each starts with its time.
//!
//! Without a terminal, every message is a frame: one byte for the stream, three zeros, four for the length,
//! then `time text`. With a terminal there are no frames. A message then ends at its line break, or after a
//! full buffer if a line is longer than the engine's buffer. The caller must know whether there is a
//! terminal, because the content does not say.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use crate::model::stream::Source;

/// One message: a line, or a part of a line if there is no line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// The stream; with a terminal always standard output.
    pub source: Source,
    /// When the engine read it, RFC 3339.
    pub time: String,
    /// The text, with its line break if it has one.
    pub text: Bytes,
}

/// Splits bytes into messages.
#[derive(Debug)]
pub(super) struct Decoder {
    tty: bool,
    pending: BytesMut,
}

impl Decoder {
    pub(super) fn new(tty: bool) -> Self {
        Self { tty, pending: BytesMut::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next complete message, if there is one.
    ///
    /// # Errors
    /// The bytes are not in the engine's format. Nothing after them can be trusted.
    pub(super) fn next(&mut self) -> Result<Option<LogMessage>, &'static str> {
        let found = if self.tty { self.line(false)? } else { self.frame()? };
        found.map(|(source, bytes)| message(source, bytes)).transpose()
    }

    /// The incomplete last line of a terminal at the end of the stream.
    pub(super) fn rest(&mut self) -> Result<Option<LogMessage>, &'static str> {
        let found = if self.tty { self.line(true)? } else { None };
        found.map(|(source, bytes)| message(source, bytes)).transpose()
    }

    fn frame(&mut self) -> Result<Option<(Source, Bytes)>, &'static str> {
        let Some((head, _)) = self.pending.split_first_chunk::<8>() else { return Ok(None) };
        let [stream, 0, 0, 0, length @ ..] = *head else {
            return Err("a frame has an invalid header");
        };
        let source = match stream {
            1 => Source::Stdout,
            2 => Source::Stderr,
            _ => return Err("a frame names no stream"),
        };
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LARGEST_MESSAGE {
            return Err("a frame is too long");
        }
        if self.pending.len() < HEAD + length {
            return Ok(None);
        }
        self.pending.advance(HEAD);
        Ok(Some((source, self.pending.split_to(length).freeze())))
    }

    fn line(&mut self, over: bool) -> Result<Option<(Source, Bytes)>, &'static str> {
        let end = match memchr(b'\n', &self.pending) {
            Some(at) => at + 1,
            None if over => self.pending.len(),
            None => usize::MAX,
        };
        let Some(part) = memchr(b' ', &self.pending).map(|at| at + 1 + BUFFER) else {
            return if self.pending.len() > LONGEST_TIME {
                Err("a line has no time")
            } else {
                Ok(None)
            };
        };
        // The first byte after a full buffer of text: it starts another message, or belongs to this line.
        let next = self.pending.get(part..).unwrap_or_default();
        let cut = end > part && memchr(b' ', next).is_some_and(|at| is_time(next.get(..at)));
        let length = if cut { part } else { end };
        if length == usize::MAX && self.pending.len() > LARGEST_MESSAGE {
            return Err("a line is too long");
        }
        if length == 0 || length > self.pending.len() {
            return Ok(None);
        }
        Ok(Some((Source::Stdout, self.pending.split_to(length).freeze())))
    }
}

fn message(source: Source, mut bytes: Bytes) -> Result<LogMessage, &'static str> {
    let space = memchr(b' ', &bytes).ok_or("a message has no time")?;
    let stated = bytes.split_to(space);
    bytes.advance(1);
    let time = time(&stated).ok_or("a message has no time")?.to_owned();
    Ok(LogMessage { source, time, text: bytes })
}

fn is_time(bytes: Option<&[u8]>) -> bool {
    bytes.and_then(time).is_some()
}

fn time(bytes: &[u8]) -> Option<&str> {
    let bytes = Some(bytes).filter(|bytes| bytes.len() <= LONGEST_TIME)?;
    let text = std::str::from_utf8(bytes).ok()?;
    text.parse::<jiff::Timestamp>().is_ok().then_some(text)
}

const HEAD: usize = 8;
/// How much the engine reads from a container at once, and so the maximum length of one message.
const BUFFER: usize = 16 * 1024;
/// RFC 3339 with nine digits and an offset.
const LONGEST_TIME: usize = 35;
/// Also enough for log drivers with larger buffers.
const LARGEST_MESSAGE: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests;
