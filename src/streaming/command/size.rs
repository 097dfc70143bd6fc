//! Sizes of the client's terminal: a sequence of JSON objects, which may be split at any byte.

use bytes::{Buf, BytesMut};
use serde::Deserialize;

use crate::{model::stream::TerminalSize, streaming::channel::Reader, wire::nullable::nullable};

/// Reads the client's terminal sizes. Bytes that are not a size end the sequence, because the rest cannot be parsed.
#[derive(Debug)]
pub struct Sizes {
    reader: Reader,
    buffer: SizeBuffer,
    repeated: Option<TerminalSize>,
}

impl Sizes {
    /// Reads terminal sizes from `reader`.
    pub fn new(reader: Reader) -> Self {
        Self { reader, buffer: SizeBuffer::default(), repeated: None }
    }

    /// Makes [`Self::next`] return this size first.
    pub const fn repeat(&mut self, size: Option<TerminalSize>) {
        self.repeated = size;
    }

    /// The next size; if the next bytes contain several, the last of them. `None` at the end of the stream,
    /// or after bytes that are not a size. Cancel-safe.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        if let Some(size) = self.repeated.take() {
            return Some(size);
        }
        loop {
            let bytes = self.reader.next().await?;
            if let Some(size) = self.buffer.push(&bytes).ok()? {
                return Some(size);
            }
        }
    }
}

/// The bytes of a size that has not arrived completely.
#[derive(Debug, Default)]
pub struct SizeBuffer {
    bytes: BytesMut,
}

/// The error for bytes that are not terminal sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSize;

impl SizeBuffer {
    /// Adds bytes, and returns the last complete size, if any. Ignores sizes with width or height 0.
    ///
    /// # Errors
    /// Fails if the bytes are not sizes, or if an incomplete size is too long.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<TerminalSize>, InvalidSize> {
        self.bytes.extend_from_slice(bytes);
        let mut last = None;
        let mut sizes = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<Wanted>();
        for size in sizes.by_ref() {
            match size {
                Ok(size) => last = size.usable().or(last),
                Err(error) if error.is_eof() => break,
                Err(_) => return Err(InvalidSize),
            }
        }
        let read = sizes.byte_offset();
        self.bytes.advance(read);
        if self.bytes.len() > LONGEST_SIZE { Err(InvalidSize) } else { Ok(last) }
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
    /// The size, unless width or height is 0. Clients without a terminal send 0.
    fn usable(&self) -> Option<TerminalSize> {
        let Self { width, height } = *self;
        (width > 0 && height > 0).then_some(TerminalSize { width, height })
    }
}

/// Maximum length of an incomplete size in bytes.
const LONGEST_SIZE: usize = 4096;

#[cfg(test)]
mod tests;
