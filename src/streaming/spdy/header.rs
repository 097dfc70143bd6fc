//! Header blocks: names and values. All blocks that the peer sends on a connection share the state of their
//! compression. No I/O.

use bytes::Buf;
use flate2::{Decompress, DecompressError, FlushDecompress, Status};

use super::{
    dictionary,
    frame::Malformed,
    limits::{HEADER_BYTES, HEADERS},
};

/// The headers of a stream. Names are unique and have no upper-case ASCII letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Headers {
    pairs: Vec<(String, String)>,
}

impl Headers {
    /// The first value of the header `name`. Ignores the case of the name.
    pub(super) fn first(&self, name: &str) -> Option<&str> {
        let (_, value) = self.pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        value.split(VALUE_SEPARATOR).next()
    }

    pub(super) fn parse(mut block: &[u8]) -> Result<Self, Malformed> {
        let count = block.try_get_u32().map_err(|_| TRUNCATED)?;
        if count > HEADERS {
            return Err(Malformed("too many headers"));
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        for _ in 0..count {
            let (name, value) = (text(&mut block)?, text(&mut block)?);
            if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                return Err(Malformed(
                    "the name of a stream header is empty or has upper-case letters",
                ));
            }
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(Malformed("two stream headers have the same name"));
            }
            pairs.push((name.to_owned(), value.to_owned()));
        }
        let is_whole = block.is_empty();
        is_whole.then_some(Self { pairs }).ok_or(Malformed("bytes after the last stream header"))
    }
}

/// Decompresses all header blocks of one connection, in the order in which they arrive.
#[derive(Debug)]
pub(super) struct Inflater(Decompress);

impl Default for Inflater {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl Inflater {
    /// Decompresses a header block. Fails as soon as the result is longer than [`HEADER_BYTES`].
    pub(super) fn inflate(&mut self, mut block: &[u8]) -> Result<Vec<u8>, Malformed> {
        // The buffer has room for one byte more than allowed, so that a block that is too long is noticed.
        let mut inflated = Vec::with_capacity(HEADER_BYTES + 1);
        loop {
            let before = self.0.total_in();
            let result = self.0.decompress_vec(block, &mut inflated, FlushDecompress::Sync);
            let used = usize::try_from(self.0.total_in() - before).unwrap_or(usize::MAX);
            block = block.get(used..).unwrap_or_default();
            if inflated.len() > HEADER_BYTES {
                return Err(TOO_LONG);
            }
            self.judge(result)?;
            if block.is_empty() {
                return Ok(inflated);
            }
        }
    }

    /// The first header block of a connection requests the dictionary if the peer compresses with it. The end of the
    /// zlib stream is an error.
    fn judge(&mut self, result: Result<Status, DecompressError>) -> Result<(), Malformed> {
        match result {
            Ok(Status::Ok) => Ok(()),
            Ok(Status::BufError | Status::StreamEnd) => Err(CORRUPT),
            Err(error) if error.needs_dictionary().is_some() => {
                self.0.set_dictionary(&dictionary::bytes()).map(|_| ()).map_err(|_| CORRUPT)
            }
            Err(_) => Err(CORRUPT),
        }
    }
}

fn text<'a>(block: &mut &'a [u8]) -> Result<&'a str, Malformed> {
    let length = block.try_get_u32().map_err(|_| TRUNCATED)?;
    let length = usize::try_from(length).map_err(|_| TRUNCATED)?;
    let (text, rest) = block.split_at_checked(length).ok_or(TRUNCATED)?;
    *block = rest;
    std::str::from_utf8(text).map_err(|_| Malformed("a stream header is not UTF-8"))
}

/// The separator between two values of the same header.
const VALUE_SEPARATOR: char = '\0';
const TRUNCATED: Malformed = Malformed("truncated headers");
const TOO_LONG: Malformed = Malformed("the stream headers are too long");
pub(super) const CORRUPT: Malformed = Malformed("the stream headers cannot be decompressed");

#[cfg(test)]
pub(super) mod tests;
