//! The last complete entries of a CRI file, from which a log continues.

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt};

use jiff::Timestamp;
use memchr::{memchr, memrchr};

use super::{
    entry::{LogEntry, is_time},
    position::Group,
};
use crate::model::time::Nanos;

/// The last entry written, by its time. Parts of a long line share one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWritten {
    /// The time as the engine wrote it.
    pub time: String,
    /// How many CRI lines with this time were written.
    pub count: u32,
    /// The latest time written. Entries of the two streams may be slightly out of order.
    pub latest: String,
}

impl LastWritten {
    /// How many of the CRI lines that an entry makes were written before. Must be called for all entries in
    /// the engine's order, until the first that was not written or until [`LastWritten::is_used_up`].
    pub fn covers(&mut self, entry: &LogEntry<'_>, lines: u32) -> u32 {
        let Ok(time) = entry.time.parse::<Timestamp>() else { return lines };
        if self.time.parse().is_ok_and(|mine: Timestamp| mine == time) {
            return take(&mut self.count, lines);
        }
        let is_earlier = self.latest.parse().is_ok_and(|latest: Timestamp| time <= latest);
        if is_earlier { lines } else { 0 }
    }

    /// The entry that was written last has been found.
    pub fn is_used_up(&self) -> bool {
        self.count == 0
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
        let latest = self.last.as_ref().and_then(|last| last.latest.parse::<Timestamp>().ok());
        latest.is_some_and(|latest| latest.as_nanosecond() < i128::from(instant.0))
    }

    /// How many of the CRI lines that an entry makes are among the written ones. Must be called once for each
    /// entry, in the engine's order.
    pub fn covers(&mut self, time: &str, lines: u32) -> u32 {
        self.left(time).map_or(0, |left| take(left, lines))
    }

    /// Leaves out entries that need not be looked for. Returns false if they are not among the written ones.
    pub fn leave_out(&mut self, group: &Group) -> bool {
        match self.left(&group.time) {
            Some(left) if *left >= group.lines => take(left, group.lines) > 0,
            _ => false,
        }
    }

    fn left(&mut self, time: &str) -> Option<&mut u32> {
        self.lines.get_mut(&time.parse::<Timestamp>().ok()?)
    }

    /// Adds the end of an older file. A long line may have parts in both files.
    pub fn and_older(mut self, older: Self) -> Self {
        if let (Some(last), Some(other)) = (&mut self.last, older.last) {
            if last.time == other.time {
                last.count = last.count.saturating_add(other.count);
            }
            if is_later(&other.latest, &last.latest) {
                last.latest = other.latest;
            }
        }
        for (time, count) in older.lines {
            add(self.lines.entry(time).or_default(), count);
        }
        self
    }
}

fn take(count: &mut u32, most: u32) -> u32 {
    let taken = most.min(*count);
    *count -= taken;
    taken
}

fn add(count: &mut u32, more: u32) {
    *count = count.saturating_add(more);
}

/// The last entries of a CRI file. None if it has no complete line.
pub fn last(file: &File) -> io::Result<Option<Written>> {
    let is_enough = |found: &Option<Written>| found.as_ref().is_some_and(|it| it.lines.len() > 1);
    at_end(file, last_in, is_enough)
}

/// Whether a CRI file ends with exactly these entries, after others.
pub fn ends_with(file: &File, last: &Group) -> io::Result<bool> {
    let is_end = |bytes: &[u8], whole: bool| {
        let times = complete_lines(bytes, whole)?.rev().map(time_of);
        for (lines, time) in (0..).zip(times) {
            if time != Some(last.time.as_str()) {
                return Some(lines > 0 && lines == last.lines);
            }
        }
        None
    };
    Ok(at_end(file, is_end, |_| true)?.unwrap_or(false))
}

/// Truncates the file after the last newline. Returns the number of removed bytes.
pub fn cut(file: &File) -> io::Result<u64> {
    let length_of = |bytes: &[u8], whole: bool| match memrchr(b'\n', bytes) {
        Some(at) => Some(bytes.len() - at - 1),
        None => whole.then_some(bytes.len()),
    };
    let torn = at_end(file, length_of, Option::is_some)?.unwrap_or(0);
    let torn = u64::try_from(torn).unwrap_or(0);
    if torn > 0 {
        file.set_len(file.metadata()?.len().saturating_sub(torn))?;
    }
    Ok(torn)
}

/// Reads more and more of the end of a file, until `is_enough` or all of it is read. `read` also gets
/// whether its bytes are the whole file.
fn at_end<T>(
    file: &File,
    read: impl Fn(&[u8], bool) -> T,
    is_enough: impl Fn(&T) -> bool,
) -> io::Result<T> {
    let length = file.metadata()?.len();
    let mut window = WINDOW;
    loop {
        let from = length.saturating_sub(window);
        let mut bytes = vec![0; usize::try_from(length - from).unwrap_or(0)];
        file.read_exact_at(&mut bytes, from)?;
        let found = read(&bytes, from == 0);
        if is_enough(&found) || from == 0 || window >= WIDEST {
            return Ok(found);
        }
        window *= 4;
    }
}

/// The entries at the end of a file. `bytes` is the whole file or its last part. Entries with the last time
/// are only counted completely if an entry with another time precedes them.
pub(super) fn last_in(bytes: &[u8], whole: bool) -> Option<Written> {
    let mut times = complete_lines(bytes, whole)?.rev().map(time_of).peekable();
    let time = (*times.peek()?)?.to_owned();
    let mut last = LastWritten { latest: time.clone(), count: 0, time };
    let mut found = Written::default();
    for time in times.flatten() {
        if time == last.time {
            add(&mut last.count, 1);
        } else if is_later(time, &last.latest) {
            time.clone_into(&mut last.latest);
        }
        if let Ok(time) = time.parse() {
            add(found.lines.entry(time).or_default(), 1);
        }
    }
    found.last = Some(last);
    Some(found)
}

/// The lines of a file, or of its last part.
fn complete_lines(mut bytes: &[u8], whole: bool) -> Option<impl DoubleEndedIterator<Item = &[u8]>> {
    if !whole {
        bytes = bytes.get(memchr(b'\n', bytes)? + 1..)?;
    }
    Some(bytes.get(..memrchr(b'\n', bytes)?)?.split(|byte| *byte == b'\n'))
}

fn time_of(line: &[u8]) -> Option<&str> {
    let time = line.get(..memchr(b' ', line)?).filter(|time| is_time(time))?;
    std::str::from_utf8(time).ok()
}

fn is_later(one: &str, other: &str) -> bool {
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    parse(one).zip(parse(other)).is_some_and(|(one, other)| one > other)
}

/// Long enough for several lines of any length.
const WINDOW: u64 = 64 * 1024;
/// A line in parts has no length limit.
const WIDEST: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
