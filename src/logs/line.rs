//! Writes CRI log lines, which have the form `<time> <stdout|stderr> <P|F> <content>`.
//!
//! `F` marks the end of a line of output, `P` a part of a line without its end.

use memchr::memchr;

use super::entry::LogEntry;

/// Appends the CRI lines of an entry to `out`. Returns the number of CRI lines.
pub fn append(entry: &LogEntry<'_>, out: &mut Vec<u8>) -> u32 {
    let mut lines = 0;
    let mut rest = entry.text;
    // The engine writes at most one line of output into an entry, but other programs might write several.
    while let Some(at) = memchr(b'\n', rest) {
        let (line, behind) = rest.split_at_checked(at).unwrap_or((rest, b""));
        lines += append_parts(entry, line, true, out);
        rest = behind.strip_prefix(b"\n").unwrap_or(behind);
    }
    lines + append_parts(entry, rest, entry.full, out)
}

fn append_parts(entry: &LogEntry<'_>, text: &[u8], full: bool, out: &mut Vec<u8>) -> u32 {
    let (mut lines, mut rest) = (0, text);
    while rest.len() > PART {
        let (part, behind) = rest.split_at_checked(PART).unwrap_or((rest, b""));
        append_line(entry, b" P ", part, out);
        lines += 1;
        rest = behind;
    }
    if full || !rest.is_empty() {
        append_line(entry, if full { b" F " } else { b" P " }, rest, out);
        lines += 1;
    }
    lines
}

fn append_line(entry: &LogEntry<'_>, tag: &[u8; 3], text: &[u8], out: &mut Vec<u8>) {
    let stream = entry.stream.as_str().as_bytes();
    out.reserve(entry.time.len() + stream.len() + tag.len() + text.len() + 2);
    out.extend_from_slice(entry.time.as_bytes());
    out.push(b' ');
    out.extend_from_slice(stream);
    out.extend_from_slice(tag);
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// The maximum number of bytes of content in a CRI line.
pub const PART: usize = 16 * 1024;

#[cfg(test)]
mod tests;
