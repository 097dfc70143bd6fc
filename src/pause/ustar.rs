//! Writes ustar archives with what an image needs: regular files with short names. The result is the same
//! on every host.

#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    /// Adds a file with owner root and a date in 1970. `name` has at most 99 bytes; `mode` has only
    /// permission bits.
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

/// One header block. Its checksum is the sum of its bytes, with blanks in place of the checksum itself.
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

/// A text in a field of `width` bytes, padded with zeros.
fn field(text: &str, width: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(width, 0);
    bytes
}

/// All entries of an archive start at a multiple of this many bytes.
const BLOCK: usize = 512;
/// The length of an archive is a multiple of this many bytes.
const RECORD: usize = 20 * BLOCK;
