//! Converts a piece of the engine's log file to CRI lines.

use memchr::memchr;

use super::{cri_tail::Written, entry, line};

/// Buffers for a conversion. Only one poll uses them at a time.
#[derive(Debug, Default)]
pub struct Buffers {
    input: Vec<u8>,
    pub output: Vec<u8>,
    scratch: Vec<u8>,
}

impl Buffers {
    /// Space for this many bytes of the engine's file.
    pub fn input(&mut self, length: usize) -> &mut [u8] {
        self.input.resize(length, 0);
        &mut self.input
    }

    /// The first bytes of the input.
    pub fn first(&self, length: u64) -> &[u8] {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.input.get(..length).unwrap_or(&self.input)
    }
}

/// How much of the input was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Converted bytes. An incomplete line is not converted.
    pub consumed: u64,
    /// Lines without an entry.
    pub unreadable: u64,
    /// The length up to the end of the last entry that was already written before.
    pub written: Option<u64>,
}

/// Converts the first `length` bytes of the input, which start with a new line. If `is_last`, a last line
/// without a newline is complete. With `search`, entries are not converted but compared with those that
/// were written before.
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

/// Skips NUL bytes, which a power failure leaves instead of data.
fn without_nuls(bytes: &[u8]) -> &[u8] {
    if bytes.first() != Some(&0) {
        return bytes;
    }
    let some = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    bytes.get(some..).unwrap_or(b"")
}
