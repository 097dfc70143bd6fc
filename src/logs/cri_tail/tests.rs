//! Marks that dockbridge would not write. The file that stores them may be damaged.

use super::*;

fn full() -> LastWritten {
    let time = "2026-11-20T11:21:31Z".to_owned();
    LastWritten { latest: time.clone(), time, count: u32::MAX }
}

#[test]
fn a_count_that_is_full_stays_full() {
    let mut group = Group { time: full().time, lines: u32::MAX };
    group.add(&full().time, 1);
    assert_eq!(group.lines, u32::MAX);
    let written = Written { last: Some(full()), ..Written::default() };
    assert_eq!(written.clone().and_older(written.clone()), written);
}
