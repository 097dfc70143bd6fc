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

/// The position in a connection's bytes.
#[derive(Debug)]
pub(super) struct AuthorityFilter {
    part: Part,
    field: Field,
}

/// A part of the connection (RFC 9113, sections 3.4, 4.1 and 6.2), with the bytes that are left of it.
#[derive(Clone, Copy, Debug)]
enum Part {
    Preface {
        left: usize,
    },
    FrameHeader {
        bytes: [u8; 9],
        known: usize,
    },
    PadLength {
        block: Block,
        has_priority: bool,
    },
    Priority {
        left: usize,
        block: Block,
    },
    Fields(Block),
    /// Payload of other frames, and padding.
    Skipped {
        left: usize,
    },
}

/// A header block, or the piece of one in a frame.
#[derive(Clone, Copy, Debug)]
struct Block {
    left: usize,
    padding: usize,
}

/// A part of a header block (RFC 7541, sections 5 and 6). A block may run over several frames.
#[derive(Clone, Copy, Debug)]
enum Field {
    Start,
    /// Further bytes of an index. `:authority` has an index of only one byte.
    LongIndex {
        has_value: bool,
    },
    Length(Text),
    LongLength {
        text: Text,
        length: usize,
        shift: u32,
    },
    Content {
        text: Text,
        left: usize,
    },
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
    pub(super) fn new() -> Self {
        Self { part: Part::Preface { left: PREFACE }, field: Field::Start }
    }

    /// Whether the client has sent the HTTP/2 preface.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.part, Part::Preface { .. })
    }

    /// Handles the next bytes that were read, and overwrites the authorities in them.
    pub(super) fn overwrite(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = self.take(bytes);
            bytes = bytes.get_mut(taken..).unwrap_or_default();
        }
    }

    /// Advances by at least one part, which may be empty. Returns the number of handled bytes.
    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let first = bytes.first().copied().unwrap_or_default();
        match &mut self.part {
            Part::Preface { left } | Part::Skipped { left } => {
                let taken = count(left, bytes.len());
                if *left == 0 {
                    self.part = Part::FrameHeader { bytes: [0; 9], known: 0 };
                }
                taken
            }
            Part::FrameHeader { bytes, known } => {
                if let Some(byte) = bytes.get_mut(*known) {
                    *byte = first;
                }
                *known += 1;
                if *known == bytes.len() {
                    let header = *bytes;
                    self.part = self.payload(header);
                }
                1
            }
            Part::PadLength { block, has_priority } => {
                let padding = usize::from(first).min(block.left);
                let block = Block { left: block.left - padding, padding };
                self.part = if *has_priority { priority(block) } else { Part::Fields(block) };
                1
            }
            Part::Priority { left, block } => {
                let taken = count(left, bytes.len());
                if *left == 0 {
                    self.part = Part::Fields(*block);
                }
                taken
            }
            Part::Fields(block) => {
                let taken = count(&mut block.left, bytes.len());
                if block.left == 0 {
                    self.part = Part::Skipped { left: block.padding };
                }
                self.field.overwrite(bytes.get_mut(..taken).unwrap_or_default());
                taken
            }
        }
    }

    /// The part after a frame's header.
    fn payload(&mut self, header: [u8; 9]) -> Part {
        let [long, middle, short, kind, flags, ..] = header;
        let length = usize::from(long) << 16 | usize::from(middle) << 8 | usize::from(short);
        let block = Block { left: length, padding: 0 };
        match kind {
            HEADERS => {
                self.field = Field::Start;
                let has_priority = flags & PRIORITY != 0;
                if flags & PADDED == 0 {
                    return if has_priority { priority(block) } else { Part::Fields(block) };
                }
                match length.checked_sub(1) {
                    Some(left) => Part::PadLength { block: Block { left, ..block }, has_priority },
                    None => Part::Skipped { left: 0 },
                }
            }
            CONTINUATION => Part::Fields(block),
            _ => Part::Skipped { left: length },
        }
    }
}

fn priority(block: Block) -> Part {
    match block.left.checked_sub(PRIORITY_LENGTH) {
        Some(left) => Part::Priority { left: PRIORITY_LENGTH, block: Block { left, ..block } },
        None => Part::Skipped { left: block.left + block.padding },
    }
}

/// The number of bytes that can be taken now. Subtracts it from `left`.
fn count(left: &mut usize, there: usize) -> usize {
    let taken = there.min(*left);
    *left -= taken;
    taken
}

impl Field {
    fn overwrite(&mut self, mut bytes: &mut [u8]) {
        while let Some(first) = bytes.first().copied() {
            let mut taken = 1;
            *self = match *self {
                Self::Start => Self::of(first),
                Self::LongIndex { has_value } if first & MORE == 0 => Self::behind_index(has_value),
                Self::LongIndex { has_value } => Self::LongIndex { has_value },
                Self::Length(text) => Self::content(text.coded_as(first), first & !CODED),
                Self::LongLength { text, length, shift } => {
                    Self::longer(text, length, shift, first)
                }
                Self::Content { text, mut left } => {
                    taken = count(&mut left, bytes.len());
                    let text = text.overwrite(bytes.get_mut(..taken).unwrap_or_default());
                    if left == 0 { text.next() } else { Self::Content { text, left } }
                }
                Self::Invalid => return,
            };
            bytes = bytes.get_mut(taken..).unwrap_or_default();
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

    fn behind_index(has_value: bool) -> Self {
        if has_value { Self::Length(Text::Value { letter: None }) } else { Self::Start }
    }

    /// The content that a length of one byte announces, or the rest of the length.
    fn content(text: Text, length: u8) -> Self {
        let (length, left) = (usize::from(length), usize::from(length));
        if length == LONGEST {
            Self::LongLength { text, length, shift: 0 }
        } else {
            Self::Content { text, left }
        }
    }

    fn longer(text: Text, length: usize, shift: u32, byte: u8) -> Self {
        // Far longer than any accepted header list.
        if shift > 21 {
            return Self::Invalid;
        }
        let length = length + (usize::from(byte & !MORE) << shift);
        if byte & MORE == 0 {
            Self::Content { text, left: length }
        } else {
            Self::LongLength { text, length, shift: shift + 7 }
        }
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

    /// Reads or overwrites a piece of the field.
    fn overwrite(self, piece: &mut [u8]) -> Self {
        match self {
            Self::Name { missing } => {
                return Self::Name {
                    missing: missing.and_then(|missing| missing.strip_prefix(&*piece)),
                };
            }
            Self::Value { letter: Some(letter) } => piece.fill(letter),
            Self::Value { letter: None } | Self::Authority => {}
        }
        self
    }

    /// The field after this one.
    fn next(self) -> Field {
        match self {
            Self::Name { missing: Some([]) } => Field::Length(Self::Authority),
            Self::Name { .. } => Field::Length(Self::Value { letter: None }),
            Self::Value { .. } | Self::Authority => Field::Start,
        }
    }
}

/// Length of the HTTP/2 preface.
const PREFACE: usize = 24;
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
