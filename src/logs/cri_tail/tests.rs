//! Marks that dockbridge would not write. The file that stores them may be damaged.

use super::*;
use crate::model::stream::Source;

fn full() -> LastWritten {
    let time = "2026-11-20T11:21:31Z".parse().unwrap();
    LastWritten { latest: time, time, count: u32::MAX }
}

#[test]
fn a_count_that_is_full_stays_full() {
    let time = full().time.to_string();
    let entry = LogEntry::new(&time, Source::Stdout, b"text\n");
    assert_eq!(LastWritten::next(Some(full()), &entry, 1), Some(full()));
    let written = Written { last: Some(full()), ..Written::default() };
    assert_eq!(written.clone().and_older(written.clone()), written);
}
