//! Compresses and decompresses SPDY's header blocks of names and values. Each direction of a connection has
//! one compression state.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::dictionary::{DICTIONARY, ID};
use crate::support::failure::{Outcome, ensure_eq, fail};

/// Compresses the headers that this side sends.
#[derive(Debug)]
pub(crate) struct Deflater(Compress);

impl Deflater {
    /// A compressor that has the dictionary and has compressed no block yet.
    pub(crate) fn new() -> Outcome<Self> {
        let mut compress = Compress::new(Compression::best(), true);
        compress.set_dictionary(&DICTIONARY)?;
        Ok(Self(compress))
    }

    /// Compresses names and values as the next block.
    pub(crate) fn block(&mut self, headers: &[(&str, &str)]) -> Outcome<Vec<u8>> {
        let mut plain = length(headers.len())?;
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend(length(text.len())?);
            plain.extend(text.as_bytes());
        }
        self.raw(&plain)
    }

    /// Compresses these bytes as a block, even if they are not headers.
    pub(crate) fn raw(&mut self, plain: &[u8]) -> Outcome<Vec<u8>> {
        let mut packed = Vec::with_capacity(plain.len() + 1024);
        let from = self.0.total_in();
        loop {
            let taken = usize::try_from(self.0.total_in() - from)?;
            self.0.compress_vec(&plain[taken..], &mut packed, FlushCompress::Sync)?;
            if packed.len() < packed.capacity() {
                return Ok(packed);
            }
            packed.reserve(64 << 10);
        }
    }
}

/// Decompresses the headers that the other side sends.
#[derive(Debug)]
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// Decompresses the next block, and returns its names and values.
    pub(crate) fn block(&mut self, packed: &[u8]) -> Outcome<Vec<(String, String)>> {
        let plain = self.inflate(packed)?;
        let mut rest = &plain[..];
        let mut headers = Vec::new();
        for _ in 0..number(&mut rest)? {
            headers.push((text(&mut rest)?, text(&mut rest)?));
        }
        ensure_eq!(rest.len(), 0_usize, "bytes after the last header");
        Ok(headers)
    }

    fn inflate(&mut self, packed: &[u8]) -> Outcome<Vec<u8>> {
        let mut plain = Vec::with_capacity(4 << 10);
        let from = self.0.total_in();
        loop {
            let taken = usize::try_from(self.0.total_in() - from)?;
            let result = self.0.decompress_vec(&packed[taken..], &mut plain, FlushDecompress::Sync);
            match result.map_err(|error| (error.needs_dictionary(), error)) {
                Err((Some(id), _)) => {
                    ensure_eq!(id, ID);
                    self.0.set_dictionary(&DICTIONARY)?;
                }
                Err((None, error)) => return Err(error.into()),
                Ok(_) if plain.len() == plain.capacity() => plain.reserve(64 << 10),
                Ok(_) => return Ok(plain),
            }
        }
    }
}

fn length(length: usize) -> Outcome<Vec<u8>> {
    Ok(u32::try_from(length)?.to_be_bytes().to_vec())
}

fn number(rest: &mut &[u8]) -> Outcome<usize> {
    let Some((bytes, after)) = rest.split_first_chunk() else { fail!("a header block cut off") };
    *rest = after;
    Ok(usize::try_from(u32::from_be_bytes(*bytes))?)
}

fn text(rest: &mut &[u8]) -> Outcome<String> {
    let length = number(rest)?;
    let Some((bytes, after)) = rest.split_at_checked(length) else {
        fail!("a header of {length} bytes cut off");
    };
    *rest = after;
    Ok(String::from_utf8(bytes.to_vec())?)
}
