//! Sizes of the client's terminal: JSON objects, one after the other, cut anywhere.

use bytes::{Buf, BytesMut};
use serde::Deserialize;

use crate::{model::stream::TerminalSize, streaming::channel::Reader, wire::nullable::nullable};

/// The resize stream. What is no size ends it: nothing behind it can be trusted.
#[derive(Debug)]
pub struct Sizes {
    reader: Reader,
    buffer: SizeBuffer,
}

impl Sizes {
    /// Reads sizes from `reader`.
    pub fn new(reader: Reader) -> Self {
        Self { reader, buffer: SizeBuffer::default() }
    }

    /// The next size; of several that came together, the last. None when there will be no more.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            let bytes = self.reader.next().await?;
            if let Some(size) = self.buffer.push(&bytes).ok()? {
                return Some(size);
            }
        }
    }
}

/// What has come of a size so far.
#[derive(Debug, Default)]
pub struct SizeBuffer {
    bytes: BytesMut,
}

/// Bytes that are no sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSize;

impl SizeBuffer {
    /// Takes bytes in; the last whole size among them, if any. Sizes that no terminal has are
    /// passed over.
    ///
    /// # Errors
    /// Something else than sizes, or one that does not end.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<TerminalSize>, NoSize> {
        self.bytes.extend_from_slice(bytes);
        let mut last = None;
        let mut sizes = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<Wanted>();
        loop {
            match sizes.next() {
                None => break,
                Some(Ok(size)) => last = size.usable().or(last),
                Some(Err(error)) if error.is_eof() => break,
                Some(Err(_)) => return Err(NoSize),
            }
        }
        let read = sizes.byte_offset();
        self.bytes.advance(read);
        if self.bytes.len() > LONGEST { Err(NoSize) } else { Ok(last) }
    }
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(rename = "Width", alias = "width", default, deserialize_with = "nullable")]
    width: u16,
    #[serde(rename = "Height", alias = "height", default, deserialize_with = "nullable")]
    height: u16,
}

impl Wanted {
    /// A side of 0 is what clients without a terminal send.
    fn usable(&self) -> Option<TerminalSize> {
        let Self { width, height } = *self;
        (width > 0 && height > 0).then_some(TerminalSize { width, height })
    }
}

/// Bytes of a size that is not whole yet.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests;
