//! Parses an entry of a container's log from the engine's line of JSON.
//!
//! The engine writes `{"log":"…\n","stream":"stdout","time":"…"}`, sometimes with `"attrs":{…}` before the
//! time. A fast parser splits the engine's lines, and a slower parser reads lines with other JSON. After a crash, a
//! line may be truncated and followed by NULs or the next line; the parser finds the complete line inside it.

use std::{borrow::Cow, str};

use memchr::{memchr2, memmem, memrchr};
use serde::Deserialize;

use crate::model::stream::Source;

/// An entry of a log: a line of output, or a part of a line (at most about 16 KiB).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// The time of the entry as the engine wrote it: RFC 3339 with up to nine fractional digits.
    pub time: &'a str,
    /// The stream to which the container wrote the text.
    pub stream: Source,
    /// The text without a newline at its end.
    pub text: &'a [u8],
    /// Whether the text ended with a newline. If false, the line may continue in a later entry.
    pub full: bool,
}

/// Parses a line of the engine's file; `line` does not contain the newline. None if the line has no complete
/// entry. Decodes text with escape sequences into `scratch`.
pub fn parse<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<LogEntry<'a>> {
    let shape = quick(line, scratch).or_else(|| {
        let inner = memmem::find_iter(line, OPENING).filter(|at| *at > 0).take(ATTEMPTS);
        let mut starts = std::iter::once(0).chain(inner).filter_map(|at| line.get(at..));
        starts.find_map(|from| quick(from, scratch).or_else(|| tolerant(from, scratch)))
    })?;
    let Shape { time, stream, plain, full } = shape;
    Some(LogEntry { time, stream, text: plain.unwrap_or(scratch), full })
}

/// Whether the text has a length and characters that an RFC 3339 time can have, and its `T` at the right place. Such a
/// text has no spaces, at which programs split CRI lines.
pub fn is_time(text: &[u8]) -> bool {
    let known = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b':' | b'.' | b'T' | b'Z' | b'+');
    (20..=35).contains(&text.len())
        && text.get(10) == Some(&b'T')
        && text.first().is_some_and(u8::is_ascii_digit)
        && text.iter().all(known)
}

/// An entry whose text is `plain`, or in the scratch buffer if it had to be decoded.
pub(super) struct Shape<'a> {
    pub(super) time: &'a str,
    pub(super) stream: Source,
    pub(super) plain: Option<&'a [u8]>,
    pub(super) full: bool,
}

/// Parses a line that has exactly the shape that the engine writes.
pub(super) fn quick<'a>(line: &'a [u8], scratch: &mut Vec<u8>) -> Option<Shape<'a>> {
    let inner = line.strip_prefix(b"{\"log\":")?.strip_suffix(b"\"}")?;
    let (head, time) = inner.split_at_checked(memrchr(b'"', inner)?)?;
    let time = time.strip_prefix(b"\"").filter(|time| is_time(time))?;
    let head = head.strip_suffix(b",\"time\":")?;
    let (quoted, stream) = if let Some(quoted) = head.strip_suffix(b",\"stream\":\"stdout\"") {
        (quoted, Source::Stdout)
    } else if let Some(quoted) = head.strip_suffix(b",\"stream\":\"stderr\"") {
        (quoted, Source::Stderr)
    } else {
        before_attributes(head)?
    };
    let (plain, full) = plain_or_decoded(quoted, scratch)?;
    Some(Shape { time: str::from_utf8(time).ok()?, stream, plain, full })
}

/// The quoted text before `,"stream":"…","attrs":{…}`, which no JSON string contains, and the stream.
fn before_attributes(head: &[u8]) -> Option<(&[u8], Source)> {
    let (quoted, rest) = head.split_at_checked(memmem::find(head, b"\",\"stream\":\"")? + 1)?;
    let rest = rest.strip_prefix(b",\"stream\":\"std")?;
    let (attributes, stream) = match rest.strip_prefix(b"out\",\"attrs\":") {
        Some(attributes) => (attributes, Source::Stdout),
        None => (rest.strip_prefix(b"err\",\"attrs\":")?, Source::Stderr),
    };
    let whole = attributes.starts_with(b"{") && attributes.ends_with(b"}");
    (whole && memmem::find(attributes, OPENING).is_none()).then_some((quoted, stream))
}

/// Parses any JSON object with a valid stream and time.
pub(super) fn tolerant<'a>(line: &'a [u8], scratch: &mut Vec<u8>) -> Option<Shape<'a>> {
    let loose: Loose<'a> = serde_json::from_slice(line).ok()?;
    let stream = match loose.stream {
        "stdout" => Source::Stdout,
        "stderr" => Source::Stderr,
        _ => return None,
    };
    let full = store(&loose.log, scratch);
    let time = Some(loose.time).filter(|time| is_time(time.as_bytes()))?;
    Some(Shape { time, stream, plain: None, full })
}

#[derive(Deserialize)]
struct Loose<'a> {
    #[serde(default, borrow)]
    log: Cow<'a, str>,
    stream: &'a str,
    time: &'a str,
}

/// The text of a JSON string (None if it had to be decoded into `scratch`), and whether it ended with a newline.
fn plain_or_decoded<'a>(
    quoted: &'a [u8],
    scratch: &mut Vec<u8>,
) -> Option<(Option<&'a [u8]>, bool)> {
    let raw = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let Some(at) = memchr2(b'\\', b'"', raw) else { return Some((Some(raw), false)) };
    let (before, rest) = raw.split_at_checked(at)?;
    if rest == b"\\n" {
        return Some((Some(before), true));
    }
    let text: String = serde_json::from_slice(quoted).ok()?;
    Some((None, store(&text, scratch)))
}

/// Stores the text in `scratch`, without a newline at its end. Returns whether the text had that newline.
fn store(text: &str, scratch: &mut Vec<u8>) -> bool {
    let line = text.strip_suffix('\n');
    scratch.clear();
    scratch.extend_from_slice(line.unwrap_or(text).as_bytes());
    line.is_some()
}

/// The start of the engine's lines that have text. No JSON string contains these bytes.
const OPENING: &[u8] = b"{\"log\":\"";
/// How many cut-off lines before a complete line are skipped at most.
const ATTEMPTS: usize = 16;

#[cfg(test)]
mod tests;
