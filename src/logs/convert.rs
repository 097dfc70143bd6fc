//! Converts a piece of the engine's log file to CRI lines.

use memchr::{memchr, memchr_iter};

use super::{
    cri_tail::{LastWritten, Written},
    entry, line,
    position::Group,
};

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

    /// Converts single entries instead of a piece of a file, without those up to `passing`, which were
    /// written before.
    pub fn convert_entries(
        &mut self,
        entries: &[entry::LogEntry<'_>],
        passing: &mut Option<LastWritten>,
    ) {
        self.output.clear();
        for entry in entries {
            let before = self.output.len();
            let lines = line::append(entry, &mut self.output);
            let Some(mark) = passing else { continue };
            let covered = mark.covers(entry, lines);
            let written = length_of(self.output.get(before..).unwrap_or(&[]), covered);
            self.output.drain(before..before + written);
            if covered == 0 || mark.is_used_up() {
                *passing = None;
            }
        }
    }
}

/// How much of the input was used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Converted bytes. An incomplete line is not converted.
    pub consumed: u64,
    /// Lines without an entry.
    pub unreadable: u64,
    /// The last entries before the end of the converted bytes.
    pub last: Group,
    /// Where the last lines were found that were already written before.
    pub found: Option<Found>,
}

/// The place after lines that were written before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The length of the input before the place.
    pub before: u64,
    /// If only a part of the next entry was written: the length of this part in the CRI file.
    pub written: u64,
    /// The last entries before the place.
    pub last: Group,
}

/// Converts the first `length` bytes of the input, which start with a new line. If `is_last`, a last line
/// without a newline is complete. `last` are the entries before the input. With `search`, entries are not
/// converted but compared with those that were written before.
pub fn convert(
    buffers: &mut Buffers,
    length: usize,
    is_last: bool,
    last: Group,
    mut search: Option<&mut Written>,
) -> Converted {
    let Buffers { input, output, scratch } = buffers;
    output.clear();
    let mut rest = input.get(..length).unwrap_or(input);
    let whole = rest.len();
    let consumed = |rest: &[u8]| u64::try_from(whole - rest.len()).unwrap_or(0);
    let mut done = Converted { last, ..Converted::default() };
    loop {
        rest = without_nuls(rest);
        let before = consumed(rest);
        let Some((line, behind)) = first_line(rest, is_last) else { break };
        rest = behind;
        let Some(entry) = entry::parse(line, scratch) else {
            done.unreadable += u64::from(!line.is_empty());
            continue;
        };
        let lines = line::append(&entry, output);
        let covered = search.as_mut().map_or(0, |written| written.covers(entry.time, lines));
        if (1..lines).contains(&covered) {
            let written = u64::try_from(length_of(output, covered)).unwrap_or(0);
            done.found = Some(Found { before, written, last: done.last.clone() });
        }
        done.last.add(entry.time, lines);
        if covered > 0 && covered == lines {
            let last = done.last.clone();
            done.found = Some(Found { before: consumed(rest), written: 0, last });
        }
        if search.is_some() {
            output.clear();
        }
    }
    done.consumed = consumed(rest);
    done
}

/// The length of the first lines.
fn length_of(bytes: &[u8], lines: u32) -> usize {
    let last = usize::try_from(lines).ok().and_then(|lines| lines.checked_sub(1));
    last.and_then(|last| memchr_iter(b'\n', bytes).nth(last)).map_or(0, |at| at + 1)
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
