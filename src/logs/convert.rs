//! Converts a piece of the engine's log file to CRI lines.

use memchr::memchr;

use super::{cri_tail::Written, entry, line};

/// The buffers of a conversion. At most one poll at a time uses the same `Buffers`.
#[derive(Debug, Default)]
pub struct Buffers {
    input: Vec<u8>,
    pub output: Vec<u8>,
    scratch: Vec<u8>,
}

impl Buffers {
    /// Returns a buffer for `length` bytes of the engine's log file.
    pub fn input(&mut self, length: usize) -> &mut [u8] {
        self.input.resize(length, 0);
        &mut self.input
    }

    /// The first `length` bytes of the input.
    pub fn first(&self, length: u64) -> &[u8] {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.input.get(..length).unwrap_or(&self.input)
    }
}

/// The result of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// How many bytes of the input were converted or skipped.
    pub consumed: u64,
    /// How many lines of the input are not empty and have no readable entry.
    pub unreadable: u64,
    /// The length of the input up to the end of the last entry that the CRI file already has.
    pub written: Option<u64>,
}

/// Converts the first `length` bytes of the input, from the beginning of a line. If `is_last`, a last line needs no
/// newline. With `search`, only compares the entries with those of the CRI file.
pub fn convert(
    buffers: &mut Buffers,
    length: usize,
    is_last: bool,
    mut search: Option<&mut Written>,
) -> Converted {
    let Buffers { input, output, scratch } = buffers;
    output.clear();
    let mut rest = input.get(..length).unwrap_or(input);
    let whole = rest.len();
    let consumed = |rest: &[u8]| u64::try_from(whole - rest.len()).unwrap_or(0);
    let mut done = Converted::default();
    loop {
        rest = without_nuls(rest);
        let Some((line, behind)) = first_line(rest, is_last) else { break };
        rest = behind;
        match entry::parse(line, scratch) {
            Some(entry) => {
                let lines = line::append(&entry, output);
                if let Some(written) = &mut search {
                    output.clear();
                    if written.covers(&entry, lines) {
                        done.written = Some(consumed(rest));
                    }
                }
            }
            None => done.unreadable += u64::from(!line.is_empty()),
        }
    }
    done.consumed = consumed(rest);
    done
}

fn first_line(bytes: &[u8], is_last: bool) -> Option<(&[u8], &[u8])> {
    let Some(at) = memchr(b'\n', bytes) else {
        return (is_last && !bytes.is_empty()).then_some((bytes, b""));
    };
    let (line, behind) = bytes.split_at_checked(at)?;
    Some((line, behind.strip_prefix(b"\n")?))
}

/// Skips NUL bytes at the beginning, which a power failure may leave instead of data.
fn without_nuls(bytes: &[u8]) -> &[u8] {
    if bytes.first() != Some(&0) {
        return bytes;
    }
    let some = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    bytes.get(some..).unwrap_or(b"")
}
