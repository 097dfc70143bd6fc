//! The last complete entry of a CRI file, for a log without a saved position.

use std::{fs::File, io, os::unix::fs::FileExt};

use jiff::Timestamp;
use memchr::{memchr, memrchr};

use super::{
    entry::{LogEntry, is_time},
    position::LastWritten,
};

impl LastWritten {
    /// Whether an entry that makes so many CRI lines is among those written before. To be asked
    /// of all entries in the engine's order until the first that is not, or until
    /// [`LastWritten::is_used_up`].
    pub fn covers(&mut self, entry: &LogEntry<'_>, lines: u32) -> bool {
        let Ok(time) = entry.time.parse::<Timestamp>() else { return true };
        if self.time.parse().is_ok_and(|mine: Timestamp| mine == time) {
            let before = self.count;
            self.count = before.saturating_sub(lines);
            return before > 0;
        }
        self.latest.parse().is_ok_and(|latest: Timestamp| time <= latest)
    }

    /// The last entry that was written has been seen again.
    pub fn is_used_up(&self) -> bool {
        self.count == 0
    }

    /// The mark of a log in several files, from the marks of each. The parts of a line may lie in
    /// several of them.
    pub fn of_all(marks: impl Iterator<Item = Self>) -> Option<Self> {
        marks.reduce(|one, other| {
            let same = one.time == other.time;
            let (later, earlier) =
                if is_later(&other.latest, &one.latest) { (other, one) } else { (one, other) };
            Self {
                count: if same { earlier.count.saturating_add(later.count) } else { later.count },
                ..later
            }
        })
    }

    /// The mark after one more entry, which made so many CRI lines.
    pub fn next(before: Option<Self>, entry: &LogEntry<'_>, lines: u32) -> Self {
        let time = entry.time.to_owned();
        match before {
            Some(mark) if mark.time == time => {
                Self { count: mark.count.saturating_add(lines), ..mark }
            }
            Some(mark) if is_later(&mark.latest, &time) => {
                Self { time, count: lines, latest: mark.latest }
            }
            _ => Self { latest: time.clone(), time, count: lines },
        }
    }
}

/// The mark that the lines at the end of a CRI file make; none when there are none.
///
/// # Errors
/// The file cannot be read.
pub fn mark(file: &File) -> io::Result<Option<LastWritten>> {
    let length = file.metadata()?.len();
    let mut window = WINDOW;
    loop {
        let from = length.saturating_sub(window);
        let found = mark_in(&read(file, from, length)?, from == 0);
        match found {
            Some((mark, true)) => return Ok(Some(mark)),
            found if from == 0 || window >= WIDEST => return Ok(found.map(|(mark, _)| mark)),
            _ => window *= 4,
        }
    }
}

/// Truncates after the last newline; returns the number of removed bytes.
///
/// # Errors
/// The file cannot be read or cut.
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

/// The mark, and whether lines with another time are before its own, so that none of them can be
/// missing.
pub(super) fn mark_in(mut bytes: &[u8], whole: bool) -> Option<(LastWritten, bool)> {
    if !whole {
        bytes = bytes.get(memchr(b'\n', bytes)? + 1..)?;
    }
    let mut lines = bytes.get(..memrchr(b'\n', bytes)?)?.split(|byte| *byte == b'\n');
    let time = time_of(lines.next_back()?)?.to_owned();
    let mut mark = LastWritten { latest: time.clone(), time, count: 1 };
    let mut others = false;
    for other in lines.rev().filter_map(time_of) {
        if other == mark.time {
            mark.count = mark.count.saturating_add(1);
        } else {
            others = true;
            if is_later(other, &mark.latest) {
                other.clone_into(&mut mark.latest);
            }
        }
    }
    Some((mark, others))
}

fn time_of(line: &[u8]) -> Option<&str> {
    let time = line.get(..memchr(b' ', line)?).filter(|time| is_time(time))?;
    std::str::from_utf8(time).ok()
}

fn is_later(one: &str, other: &str) -> bool {
    let parse = |text: &str| text.parse::<Timestamp>().ok();
    parse(one).zip(parse(other)).is_some_and(|(one, other)| one > other)
}

fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Holds several lines of any length.
const WINDOW: u64 = 64 * 1024;
/// A line in parts can be as long as a container likes.
const WIDEST: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
