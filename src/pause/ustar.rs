//! Writes ustar archives with what an image needs: plain files with short names, reproducible on every
//! host.

#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    /// Adds a file owned by root, dated 1970. `name` is at most 99 bytes; `mode` is in the
    /// range of permission bits.
    pub(super) fn file(mut self, name: &str, mode: u16, content: &[u8]) -> Self {
        self.bytes.extend(header(name, mode, content.len()));
        self.bytes.extend_from_slice(content);
        self.pad(BLOCK);
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 2 * BLOCK]);
        self.pad(RECORD);
        self.bytes
    }

    fn pad(&mut self, unit: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(unit), 0);
    }
}

/// One header block. The checksum is the sum of its bytes with the checksum's own taken as
/// blanks.
fn header(name: &str, mode: u16, size: usize) -> Vec<u8> {
    let before = [
        field(name, 100),
        field(&format!("{mode:07o}"), 8),
        field("0000000", 8), // uid
        field("0000000", 8), // gid
        field(&format!("{size:011o}"), 12),
        field("00000000000", 12), // modification time
    ]
    .concat();
    let after = [
        field("0", 1), // a plain file
        field("", 100),
        field("ustar", 6),
        field("00", 2),
        field("", BLOCK - 265),
    ]
    .concat();
    let blanks = 8 * u32::from(b' ');
    let sum: u32 = before.iter().chain(&after).map(|&byte| u32::from(byte)).sum();
    [before, field(&format!("{:06o}\0 ", sum + blanks), 8), after].concat()
}

/// A text in a field of `width` bytes, filled up with zeros.
fn field(text: &str, width: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(width, 0);
    bytes
}

/// Everything in an archive starts at a multiple of this many bytes.
const BLOCK: usize = 512;
/// An archive's length is a multiple of this many bytes.
const RECORD: usize = 20 * BLOCK;
