//! Reads the last complete entries of a CRI file, for a log whose saved position is missing or unusable.

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt};

use jiff::Timestamp;
use memchr::{memchr, memrchr};

use super::entry::{LogEntry, is_time};
use crate::model::time::Nanos;

/// The lines at the end of a log's CRI files, by their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// How many lines have each time. The parts of a long line have the same time.
    lines: HashMap<Timestamp, u32>,
}

impl Written {
    /// Whether the ends of the CRI files have no entry.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether there are entries and all of them are older than `instant`.
    pub fn ends_before(&self, instant: Nanos) -> bool {
        let latest = self.lines.keys().max();
        latest.is_some_and(|latest| latest.as_nanosecond() < i128::from(instant.0))
    }

    /// Whether these lines include an entry of the engine's log, which has `lines` CRI lines. Must be called once for
    /// each entry, in the engine's order.
    pub fn covers(&mut self, entry: &LogEntry<'_>, lines: u32) -> bool {
        let Ok(time) = entry.time.parse::<Timestamp>() else { return false };
        let Some(left) = self.lines.get_mut(&time).filter(|left| **left > 0) else { return false };
        *left = left.saturating_sub(lines);
        true
    }

    /// Adds the entries at the end of an older file, because a long line may have parts in both files.
    pub fn and_older(mut self, older: Self) -> Self {
        for (time, count) in older.lines {
            add(self.lines.entry(time).or_default(), count);
        }
        self
    }
}

fn add(count: &mut u32, more: u32) {
    *count = count.saturating_add(more);
}

/// The last entries of a CRI file. None if its last complete line is missing or not an entry.
pub fn last(file: &File) -> io::Result<Option<Written>> {
    let length = file.metadata()?.len();
    let mut window = WINDOW;
    loop {
        let from = length.saturating_sub(window);
        let found = last_in(&read(file, from, length)?, from == 0);
        match found {
            Some(last) if last.lines.len() > 1 => return Ok(Some(last)),
            last if from == 0 || window >= LARGEST_WINDOW => return Ok(last),
            _ => window *= 4,
        }
    }
}

/// Truncates the file after the last newline, or to nothing if it has no newline. Returns the number of removed bytes.
/// Removes nothing if the last [`LARGEST_WINDOW`] bytes of a longer file have no newline.
pub fn cut(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut window = WINDOW;
    let torn = loop {
        let from = length.saturating_sub(window);
        let bytes = read(file, from, length)?;
        let rest = memrchr(b'\n', &bytes).and_then(|at| bytes.get(at + 1..));
        match rest {
            Some(rest) => break u64::try_from(rest.len()).unwrap_or(0),
            None if from == 0 => break length,
            None if window >= LARGEST_WINDOW => break 0,
            None => window *= 4,
        }
    };
    if torn > 0 {
        file.set_len(file.metadata()?.len().saturating_sub(torn))?;
    }
    Ok(torn)
}

/// The entries in `bytes`, which are the whole file or its last part. In a part, the entries with the latest time are
/// certainly all counted only if an entry with another time precedes them.
pub(super) fn last_in(mut bytes: &[u8], whole: bool) -> Option<Written> {
    if !whole {
        bytes = bytes.get(memchr(b'\n', bytes)? + 1..)?;
    }
    let lines = bytes.get(..memrchr(b'\n', bytes)?)?.split(|byte| *byte == b'\n');
    let mut times = lines.rev().map(time_of).peekable();
    times.peek()?.as_ref()?;
    let mut found = Written::default();
    for time in times.flatten() {
        add(found.lines.entry(time).or_default(), 1);
    }
    Some(found)
}

fn time_of(line: &[u8]) -> Option<Timestamp> {
    let time = line.get(..memchr(b' ', line)?).filter(|time| is_time(time))?;
    std::str::from_utf8(time).ok()?.parse().ok()
}

fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// How many bytes at the end are read first: enough for several ordinary lines.
const WINDOW: u64 = 64 * 1024;
/// How many bytes at the end are read at most, because one long line can have any number of parts.
const LARGEST_WINDOW: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
