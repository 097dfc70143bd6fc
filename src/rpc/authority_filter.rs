//! Accepts clients that send an invalid `:authority`.
//!
//! As `:authority`, grpc-go in kubelet and crictl up to 1.30 sends the path of the socket, and gRPC's C core
//! (Python, Ruby, C++) sends the percent-encoded path. The HTTP/2 library of dockbridge would reset every call with an
//! invalid authority. Nothing in dockbridge uses the authority. So the filter replaces each byte of an authority with a
//! letter, before the library reads the received bytes.
//!
//! The filter changes no lengths, so it passes on all bytes at once. The library's dynamic table of headers also stays
//! correct (RFC 7541, section 4). A plain value keeps its length. A Huffman-coded value becomes one letter for each
//! byte of its code. The new value is not longer than the value in the client's table, because the code has at most
//! eight bits for letters, digits and `/%._-:`. So the library keeps each entry of the table at least as long as the
//! client does, and every index of the client refers to the same entry.
//!
//! The filter does not look up names in the dynamic table: encoders use the static table's index of `:authority`.

/// Overwrites authorities in a connection's bytes, which arrive in pieces (RFC 9113, 3.4, 4.1 and 6.2).
#[derive(Debug, Default)]
pub(super) struct AuthorityFilter {
    preface: usize,
    frame: Frame,
    field: Field,
}

/// The HTTP/2 frame that is arriving.
#[derive(Debug, Default)]
struct Frame {
    header: u128,
    header_length: usize,
    kind: u8,
    flags: u8,
    /// Lengths in bytes: of the payload, of its arrived part, and of the padding at its end.
    length: usize,
    arrived: usize,
    padding: usize,
}

/// The part of a header block (in one or several frames) to which the next byte belongs (RFC 7541, sections 5 and 6).
#[derive(Clone, Copy, Debug, Default)]
enum Field {
    #[default]
    Start,
    /// The second and later bytes of an index or a table size. The static index of `:authority` has only one byte.
    LongIndex { has_value: bool },
    /// The first byte of a string's length.
    Length(Text),
    /// The second and later bytes of a length, with seven bits of the length each.
    LongLength { text: Text, length: usize, shift: u32 },
    /// The content of a text, of which `left` bytes have not arrived yet.
    Content { text: Text, left: usize },
    /// The HTTP/2 library will refuse these bytes as a header block, and end the connection.
    Invalid,
}

#[derive(Clone, Copy, Debug)]
enum Text {
    /// A header's name. `missing` is the rest of `:authority` that must follow; `None` for another name.
    Name { missing: Option<&'static [u8]> },
    /// A header's value. Every byte of the value becomes `letter`, if `letter` is set.
    Value { letter: Option<u8> },
    /// The value of `:authority`, as long as it is not known whether the value is Huffman-coded.
    Authority,
}

impl AuthorityFilter {
    /// Whether the client has sent as many bytes as the HTTP/2 preface has.
    pub(super) const fn has_begun(&self) -> bool {
        self.preface == PREFACE
    }

    /// Overwrites the authorities in the bytes of the connection that were read last.
    pub(super) fn overwrite(&mut self, bytes: &mut [u8]) {
        let preface = bytes.len().min(PREFACE - self.preface);
        self.preface += preface;
        let mut rest = bytes.get_mut(preface..).unwrap_or_default();
        while let Some(first) = rest.first_mut() {
            let mut taken = 1;
            if self.frame.header_length < HEADER {
                if self.frame.take_header(*first) == Some(HEADERS) {
                    self.field = Field::Start;
                }
            } else if matches!(self.frame.kind, HEADERS | CONTINUATION) {
                if self.frame.take_payload(*first) {
                    self.field = self.field.overwrite(first);
                }
            } else {
                taken = self.frame.skip(rest.len());
            }
            rest = rest.get_mut(taken..).unwrap_or_default();
        }
    }
}

impl Frame {
    /// Returns the frame's type after the last byte of the header.
    fn take_header(&mut self, byte: u8) -> Option<u8> {
        self.header = self.header << 8 | u128::from(byte);
        self.header_length += 1;
        if self.header_length < HEADER {
            return None;
        }
        let [.., long, middle, short, kind, flags, _, _, _, _] = self.header.to_be_bytes();
        self.length = usize::from(long) << 16 | usize::from(middle) << 8 | usize::from(short);
        (self.kind, self.arrived, self.padding) = (kind, 0, 0);
        self.flags = if kind == HEADERS { flags } else { 0 };
        self.skip(0);
        Some(kind)
    }

    /// Counts a byte of a frame's payload. Returns whether it is in the header block, not in padding or a priority.
    fn take_payload(&mut self, byte: u8) -> bool {
        let mut before = PRIORITY_LENGTH * usize::from(self.flags & PRIORITY != 0);
        if self.flags & PADDED != 0 {
            before += 1;
            if self.arrived == 0 {
                self.padding = usize::from(byte);
            }
        }
        let is_field = self.arrived >= before && self.arrived + self.padding < self.length;
        self.skip(1);
        is_field
    }

    /// Skips up to `most` bytes of the payload, and returns how many. The next frame begins after the last byte.
    fn skip(&mut self, most: usize) -> usize {
        let taken = most.min(self.length - self.arrived);
        self.arrived += taken;
        if self.arrived == self.length {
            self.header_length = 0;
        }
        taken
    }
}

impl Field {
    /// Processes one byte, and overwrites a byte of an authority. Returns the part of the header block that follows.
    fn overwrite(self, byte: &mut u8) -> Self {
        match self {
            Self::Start => Self::of(*byte),
            Self::LongIndex { has_value } if *byte & MORE_BYTES == 0 => {
                Self::behind_index(has_value)
            }
            Self::Length(text) => {
                let (text, length) = (text.coded_as(*byte), usize::from(*byte & !HUFFMAN_CODED));
                if length == LONG_LENGTH {
                    Self::LongLength { text, length, shift: 0 }
                } else {
                    Self::content(text, length)
                }
            }
            // The length takes more than 28 bits, so the text is longer than any header that the library accepts.
            Self::LongLength { shift: 22.., .. } => Self::Invalid,
            Self::LongLength { text, length, shift } => {
                let length = length + (usize::from(*byte & !MORE_BYTES) << shift);
                if *byte & MORE_BYTES == 0 {
                    Self::content(text, length)
                } else {
                    Self::LongLength { text, length, shift: shift + 7 }
                }
            }
            Self::Content { text, left } => Self::content(text.overwrite(byte), left - 1),
            Self::LongIndex { .. } | Self::Invalid => self,
        }
    }

    /// The part of the header block that follows the first byte of a header or of a table size.
    fn of(first: u8) -> Self {
        let (most, has_value) = match first.leading_zeros() {
            0 => (0x7f, false),
            1 => (0x3f, true),
            2 => (0x1f, false),
            _ => (0x0f, true),
        };
        match first & most {
            index if index == most => Self::LongIndex { has_value },
            0 if has_value => Self::Length(Text::Name { missing: None }),
            AUTHORITY_INDEX if has_value => Self::Length(Text::Authority),
            _ => Self::behind_index(has_value),
        }
    }

    const fn behind_index(has_value: bool) -> Self {
        if has_value { Self::Length(Text::Value { letter: None }) } else { Self::Start }
    }

    const fn content(text: Text, left: usize) -> Self {
        if left == 0 { text.next() } else { Self::Content { text, left } }
    }
}

impl Text {
    /// Evaluates the first byte of a text's length, which says whether the text is Huffman-coded.
    fn coded_as(self, first: u8) -> Self {
        let is_coded = first & HUFFMAN_CODED != 0;
        match self {
            Self::Name { .. } => {
                Self::Name { missing: Some(if is_coded { CODED_NAME } else { NAME }) }
            }
            Self::Authority => {
                Self::Value { letter: Some(if is_coded { CODED_LETTER } else { LETTER }) }
            }
            Self::Value { .. } => self,
        }
    }

    /// Compares one byte of a name, or overwrites one byte of an authority.
    fn overwrite(self, byte: &mut u8) -> Self {
        match self {
            Self::Name { missing } => {
                let missing = missing.and_then(|missing| missing.strip_prefix(&[*byte]));
                return Self::Name { missing };
            }
            Self::Value { letter: Some(letter) } => *byte = letter,
            Self::Value { letter: None } | Self::Authority => {}
        }
        self
    }

    /// The part of the header block that follows this text.
    const fn next(self) -> Field {
        match self {
            Self::Name { missing: Some([]) } => Field::Length(Self::Authority),
            Self::Name { .. } => Field::Length(Self::Value { letter: None }),
            Self::Value { .. } | Self::Authority => Field::Start,
        }
    }
}

const PREFACE: usize = 24;
const HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const PRIORITY_LENGTH: usize = 5;

/// Index of `:authority` in the static table.
const AUTHORITY_INDEX: u8 = 1;
const NAME: &[u8] = b":authority";
const CODED_NAME: &[u8] = &[0xb8, 0x3b, 0x53, 0x39, 0xec, 0x32, 0x7d, 0x7f];
/// Bit in the first byte of a length, which is set if the text is Huffman-coded.
const HUFFMAN_CODED: u8 = 0x80;
/// First byte of a length of 127 or more, without [`HUFFMAN_CODED`].
const LONG_LENGTH: usize = 0x7f;
/// Bit in the second and later bytes of a number, which is set if another byte follows.
const MORE_BYTES: u8 = 0x80;
/// Replaces each byte of an authority, also in Huffman code: this letter's code has eight bits.
const LETTER: u8 = b'Z';
const CODED_LETTER: u8 = 0xfd;

#[cfg(test)]
mod tests;
