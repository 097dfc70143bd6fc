//! Accepts clients that send an invalid `:authority`.
//!
//! grpc-go in kubelet and crictl up to 1.30 sends the path of the socket, and gRPC's C core (Python, Ruby,
//! C++) sends it percent-encoded. The HTTP/2 library resets every such call. Nothing in dockbridge uses the
//! authority. So each authority that a client sends as text is overwritten with the same number of letters,
//! in the bytes that were read, before the library sees them.
//!
//! No length changes, so nothing has to be delayed. The decoder's table also stays correct. A plain value
//! keeps its length. A Huffman-coded value becomes one letter per byte, which is not longer than in the
//! client's own table, because clients use the code only if it is shorter. So the decoder keeps its entries
//! at least as long as the client does, and every index of the client means the same entry (RFC 7541,
//! section 4).
//!
//! A name given as an index into the dynamic table is not followed, because encoders use the index of
//! `:authority` in the static table.

/// The position in a connection's bytes (RFC 9113, sections 3.4, 4.1 and 6.2).
#[derive(Debug, Default)]
pub(super) struct AuthorityFilter {
    /// Bytes of the preface that have arrived.
    preface: usize,
    frame: Frame,
    field: Field,
}

/// A frame, as far as it has arrived.
#[derive(Debug, Default)]
struct Frame {
    header: u128,
    header_length: usize,
    kind: u8,
    flags: u8,
    /// Bytes of the payload: all, those that have arrived, and those of the padding at its end.
    length: usize,
    arrived: usize,
    padding: usize,
}

/// A part of a header block (RFC 7541, sections 5 and 6). A block may run over several frames.
#[derive(Clone, Copy, Debug, Default)]
enum Field {
    #[default]
    Start,
    /// Further bytes of an index. `:authority` has an index of only one byte.
    LongIndex { has_value: bool },
    /// The first byte of a text's length.
    Length(Text),
    /// Further bytes of a length, of which each has seven bits.
    LongLength { text: Text, length: usize, shift: u32 },
    /// A text, and how many bytes of it are left.
    Content { text: Text, left: usize },
    /// This is not a header block. The HTTP/2 library will end the connection.
    Invalid,
}

#[derive(Clone, Copy, Debug)]
enum Text {
    /// A name, and the rest that it must have to be `:authority`. None if it is another name.
    Name { missing: Option<&'static [u8]> },
    /// A value, and the letter that replaces its bytes.
    Value { letter: Option<u8> },
    /// The value of `:authority`. Whether it is Huffman-coded is not known yet.
    Authority,
}

impl AuthorityFilter {
    /// Whether the client has sent the HTTP/2 preface.
    pub(super) const fn has_begun(&self) -> bool {
        self.preface == PREFACE
    }

    /// Handles the next bytes that were read, and overwrites the authorities in them.
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
    /// Takes one byte of the header. Returns the type of the frame after the last one.
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

    /// Takes one byte of the payload of a frame with headers. Returns whether the byte belongs to them.
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

    /// Takes at most this many bytes of the payload, and returns their number. After the last one, the next
    /// frame begins.
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
    /// The field after one more byte, which is overwritten if it belongs to an authority.
    fn overwrite(self, byte: &mut u8) -> Self {
        match self {
            Self::Start => Self::of(*byte),
            Self::LongIndex { has_value } if *byte & MORE == 0 => Self::behind_index(has_value),
            Self::Length(text) => {
                let (text, length) = (text.coded_as(*byte), usize::from(*byte & !CODED));
                if length == LONGEST {
                    Self::LongLength { text, length, shift: 0 }
                } else {
                    Self::content(text, length)
                }
            }
            // Far longer than any accepted header list.
            Self::LongLength { shift: 22.., .. } => Self::Invalid,
            Self::LongLength { text, length, shift } => {
                let length = length + (usize::from(*byte & !MORE) << shift);
                if *byte & MORE == 0 {
                    Self::content(text, length)
                } else {
                    Self::LongLength { text, length, shift: shift + 7 }
                }
            }
            Self::Content { text, left } => Self::content(text.overwrite(byte), left - 1),
            Self::LongIndex { .. } | Self::Invalid => self,
        }
    }

    /// The kind of a field by its first byte: an index, a table size or a literal.
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
    /// The same with the first byte of the length, which says whether the content is Huffman-coded.
    fn coded_as(self, first: u8) -> Self {
        let is_coded = first & CODED != 0;
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

    /// Reads or overwrites one byte of the text.
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

    /// The field after this one.
    const fn next(self) -> Field {
        match self {
            Self::Name { missing: Some([]) } => Field::Length(Self::Authority),
            Self::Name { .. } => Field::Length(Self::Value { letter: None }),
            Self::Value { .. } | Self::Authority => Field::Start,
        }
    }
}

/// Length of the HTTP/2 preface.
const PREFACE: usize = 24;
/// Length of a frame's header.
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
/// Bit of a length: the content is Huffman-coded.
const CODED: u8 = 0x80;
/// A length that does not fit into seven bits starts with this value.
const LONGEST: usize = 0x7f;
/// Bit in a byte of a long number: another byte follows.
const MORE: u8 = 0x80;
/// `Z`, and its code of eight bits.
const LETTER: u8 = b'Z';
const CODED_LETTER: u8 = 0xfd;

#[cfg(test)]
mod tests;
