//! Tests that the lines of a CRI log have the form that its readers expect.

use super::*;
use crate::model::stream::Source;

fn lines(content: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    let count = append(&LogEntry::new("T", Source::Stderr, content), &mut out);
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    assert_eq!(lines.len(), count as usize);
    lines
}

#[test]
fn lines_are_full_or_parts() {
    let rows: [(&[u8], &[&str]); 6] = [
        (b"hello\n", &["T stderr F hello\n"]),
        (b"hello", &["T stderr P hello\n"]),
        (b"\n", &["T stderr F \n"]),
        (b"", &[]),
        (b"a b \r\n", &["T stderr F a b \r\n"]),
        (b"a\nb\n\nc", &["T stderr F a\n", "T stderr F b\n", "T stderr F \n", "T stderr P c\n"]),
    ];
    for (content, expected) in rows {
        assert_eq!(lines(content), expected);
    }
}

#[test]
fn long_lines_come_in_parts() {
    for (length, tags) in [(PART, "F"), (PART + 1, "PF"), (2 * PART, "PF"), (2 * PART + 1, "PPF")] {
        let made = lines(format!("{}\n", "x".repeat(length)).as_bytes());
        let found: String = made.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
        assert_eq!(found, tags, "{length}");
        assert_eq!(made.iter().map(|line| line.len() - 12).sum::<usize>(), length);
    }
}
