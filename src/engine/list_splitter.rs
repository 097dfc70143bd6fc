//! Splits a list of the engine into its entries as they arrive.
//!
//! A list can have any size, because its entries contain labels. Only the JSON of one entry is collected at a time, and
//! an entry that is too large does not affect the other entries.

use std::mem;

use bytes::{Buf, Bytes};
use memchr::memchr2;

#[derive(Debug, Default)]
pub(super) struct ListSplitter {
    limit: usize,
    state: State,
    /// The bytes of the current entry, or only its first bytes if the entry is too large.
    entry: Vec<u8>,
    is_too_large: bool,
    /// How many JSON objects and lists are open in the current entry.
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Expected,
    Open,
    Closed,
    /// The answer is not a list, or has other text after the list.
    Invalid,
}

impl ListSplitter {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes the next entry from `input`: its JSON, or the error that it is too large. None once `input` is empty.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Option<Result<Vec<u8>, String>> {
        while let Some(first) = input.first().copied() {
            if self.is_in_text {
                let length = self.continue_text(first, input);
                self.keep(&input.split_to(length));
                continue;
            }
            input.advance(1);
            match first {
                _ if self.state == State::Invalid => input.clear(),
                _ if self.state != State::Open => self.outside(first),
                b',' | b']' if self.depth == 0 => {
                    if first == b']' {
                        self.state = State::Closed;
                    }
                    if let Some(entry) = self.take() {
                        return Some(entry);
                    }
                }
                _ => self.inside(first),
            }
        }
        None
    }

    /// Whether the answer was a list and was read to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Closed
    }

    fn outside(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Expected, b'[') => State::Open,
            (state, byte) if byte.is_ascii_whitespace() => state,
            _ => State::Invalid,
        };
    }

    fn inside(&mut self, byte: u8) {
        match byte {
            b'"' => self.is_in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.keep(&[byte]);
    }

    /// Returns how many bytes belong to the JSON string, up to its end or to an escape sequence.
    fn continue_text(&mut self, first: u8, input: &[u8]) -> usize {
        if mem::take(&mut self.is_escaped) {
            return 1;
        }
        match first {
            b'"' => self.is_in_text = false,
            b'\\' => self.is_escaped = true,
            _ => return memchr2(b'"', b'\\', input).unwrap_or(input.len()),
        }
        1
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.is_too_large {
            return;
        }
        self.is_too_large = self.entry.len() + bytes.len() > self.limit;
        if self.is_too_large {
            self.entry.truncate(EXCERPT);
            self.entry.shrink_to_fit();
        } else {
            self.entry.extend_from_slice(bytes);
        }
    }

    fn take(&mut self) -> Option<Result<Vec<u8>, String>> {
        let entry = mem::take(&mut self.entry);
        if mem::take(&mut self.is_too_large) {
            let start = String::from_utf8_lossy(&entry);
            let limit = self.limit;
            return Some(Err(format!(
                "the list entry is larger than {limit} bytes, and begins with {start:?}"
            )));
        }
        (!entry.trim_ascii().is_empty()).then_some(Ok(entry))
    }
}

/// How many bytes of an entry that is too large the error shows: enough for the entry's id.
const EXCERPT: usize = 200;

#[cfg(test)]
mod tests;
