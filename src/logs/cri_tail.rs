//! The last complete entries of a CRI file, for a log without a saved position.

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt};

use jiff::Timestamp;
use memchr::{memchr, memrchr};

use super::{
    entry::{LogEntry, is_time},
    position::LastWritten,
};
use crate::model::time::Nanos;

impl LastWritten {
    /// Whether an entry, which makes this many CRI lines, was written before. Must be called for all
    /// entries in the engine's order, until the first that was not written or until
    /// [`LastWritten::is_used_up`].
    pub fn covers(&mut self, entry: &LogEntry<'_>, lines: u32) -> bool {
        let Ok(time) = entry.time.parse::<Timestamp>() else { return true };
        if time == self.time {
            let before = self.count;
            self.count = before.saturating_sub(lines);
            return before > 0;
        }
        time <= self.latest
    }

    /// The entry that was written last has been found.
    pub fn is_used_up(&self) -> bool {
        self.count == 0
    }

    /// The mark after one more entry, which made this many CRI lines.
    pub fn next(before: Option<Self>, entry: &LogEntry<'_>, lines: u32) -> Option<Self> {
        let Ok(time) = entry.time.parse() else { return before };
        Some(match before {
            Some(mark) if mark.time == time => {
                Self { count: mark.count.saturating_add(lines), ..mark }
            }
            _ => Self {
                time,
                count: lines,
                latest: before.map_or(time, |mark| mark.latest.max(time)),
            },
        })
    }
}

/// The entries at the end of a log's CRI files, by time. Times are exact to the nanosecond, so they
/// identify an entry even if the clock was set back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The last entry of the newest file.
    pub last: Option<LastWritten>,
    /// The number of lines with each time. Parts of a long line share one time.
    lines: HashMap<Timestamp, u32>,
}

impl Written {
    /// Whether all entries are from before this instant.
    pub fn ends_before(&self, instant: Nanos) -> bool {
        self.last.is_some_and(|last| last.latest.as_nanosecond() < i128::from(instant.0))
    }

    /// Whether an entry of the engine is among the written ones. `lines` is the number of its CRI lines.
    /// Call it once for each entry, in the engine's order.
    pub fn covers(&mut self, entry: &LogEntry<'_>, lines: u32) -> bool {
        let Ok(time) = entry.time.parse::<Timestamp>() else { return false };
        let Some(left) = self.lines.get_mut(&time).filter(|left| **left > 0) else { return false };
        *left = left.saturating_sub(lines);
        true
    }

    /// Adds the end of an older file. A long line may have parts in both files.
    pub fn and_older(mut self, older: Self) -> Self {
        if let (Some(last), Some(other)) = (&mut self.last, older.last) {
            if last.time == other.time {
                last.count = last.count.saturating_add(other.count);
            }
            last.latest = last.latest.max(other.latest);
        }
        for (time, count) in older.lines {
            add(self.lines.entry(time).or_default(), count);
        }
        self
    }
}

fn add(count: &mut u32, more: u32) {
    *count = count.saturating_add(more);
}

/// The last entries of a CRI file. None if it has no complete line.
pub fn last(file: &File) -> io::Result<Option<Written>> {
    let length = file.metadata()?.len();
    let mut window = WINDOW;
    loop {
        let from = length.saturating_sub(window);
        let found = last_in(&read(file, from, length)?, from == 0);
        match found {
            Some(last) if last.lines.len() > 1 => return Ok(Some(last)),
            last if from == 0 || window >= WIDEST => return Ok(last),
            _ => window *= 4,
        }
    }
}

/// Truncates the file after the last newline. Returns the number of removed bytes.
pub fn cut(file: &File) -> io::Result<u64> {
    let torn = torn(file)?;
    if torn > 0 {
        file.set_len(file.metadata()?.len().saturating_sub(torn))?;
    }
    Ok(torn)
}

fn torn(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut window = WINDOW;
    loop {
        let from = length.saturating_sub(window);
        let bytes = read(file, from, length)?;
        let rest = memrchr(b'\n', &bytes).and_then(|at| bytes.get(at + 1..));
        match rest {
            Some(rest) => return Ok(u64::try_from(rest.len()).unwrap_or(0)),
            None if from == 0 => return Ok(length),
            None if window >= WIDEST => return Ok(0),
            None => window *= 4,
        }
    }
}

/// The entries at the end of a file. `bytes` is the whole file or its last part. Entries with the last time
/// are only counted completely if an entry with another time precedes them.
pub(super) fn last_in(mut bytes: &[u8], whole: bool) -> Option<Written> {
    if !whole {
        bytes = bytes.get(memchr(b'\n', bytes)? + 1..)?;
    }
    let lines = bytes.get(..memrchr(b'\n', bytes)?)?.split(|byte| *byte == b'\n');
    let mut times = lines.rev().map(time_of).peekable();
    let time = (*times.peek()?)?;
    let mut last = LastWritten { latest: time, count: 0, time };
    let mut found = Written::default();
    for time in times.flatten() {
        if time == last.time {
            add(&mut last.count, 1);
        }
        last.latest = last.latest.max(time);
        add(found.lines.entry(time).or_default(), 1);
    }
    found.last = Some(last);
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

/// Long enough for several lines of any length.
const WINDOW: u64 = 64 * 1024;
/// A line in parts has no length limit.
const WIDEST: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
