//! Parses lines as engines write them, and as crashes leave them.

use proptest::prelude::*;

use super::*;

impl<'a> LogEntry<'a> {
    /// Makes an entry from the bytes that a container wrote, which may end with a newline.
    pub(in crate::logs) fn new(time: &'a str, stream: Source, content: &'a [u8]) -> Self {
        let line = content.strip_suffix(b"\n");
        Self { time, stream, text: line.unwrap_or(content), full: line.is_some() }
    }
}

fn read(line: &[u8]) -> Option<(String, Source, Vec<u8>, bool)> {
    let mut scratch = Vec::new();
    let entry = parse(line, &mut scratch)?;
    Some((entry.time.to_owned(), entry.stream, entry.text.to_owned(), entry.full))
}

const TIME: &str = "2026-01-02T03:04:05.678901234Z";

#[test]
fn entries_are_read() {
    let rows: &[(&str, &[u8], bool)] = &[
        (r#"{"log":"hello\n","stream":"stdout","time":"T"}"#, b"hello", true),
        (r#"{"log":"hello","stream":"stdout","time":"T"}"#, b"hello", false),
        (r#"{"log":"\n","stream":"stdout","time":"T"}"#, b"", true),
        (r#"{"log":"","stream":"stdout","time":"T"}"#, b"", false),
        (r#"{"stream":"stdout","time":"T"}"#, b"", false),
        (r#"{"log":"a\\n","stream":"stdout","time":"T"}"#, b"a\\n", false),
        (r#"{"log":"a\\\n","stream":"stdout","time":"T"}"#, b"a\\", true),
        (r#"{"log":"\"\\\/\b\f\r\t\n","stream":"stdout","time":"T"}"#, b"\"\\/\x08\x0c\r\t", true),
        (r#"{"log":"\u003cb\u003E\u0026\u0000","stream":"stdout","time":"T"}"#, b"<b>&\0", false),
        (
            r#"{"log":"\u2028\ufffd\n","stream":"stdout","time":"T"}"#,
            "\u{2028}\u{fffd}".as_bytes(),
            true,
        ),
        (r#"{"log":"\ud83d\ude00","stream":"stdout","time":"T"}"#, "😀".as_bytes(), false),
        (
            r#"{"log":"x\n","stream":"stdout","attrs":{"tag":"a\"b","n":"{}"},"time":"T"}"#,
            b"x",
            true,
        ),
        (r#"{ "time":"T", "stream":"stdout", "log":"x\n", "more":[1] }"#, b"x", true),
        (
            r#"{"log":"\",\"stream\":\"stderr\"","stream":"stdout","time":"T"}"#,
            b"\",\"stream\":\"stderr\"",
            false,
        ),
        // Lines that were truncated in the text, in an escape sequence, in the time or in attributes, or that
        // have NULs in between.
        (r#"{"log":"lost{"log":"kept\n","stream":"stdout","time":"T"}"#, b"kept", true),
        (r#"{"log":"lost\{"log":"kept\n","stream":"stdout","time":"T"}"#, b"kept", true),
        (r#"{"log":"lost\u00{"log":"kept\n","stream":"stdout","time":"T"}"#, b"kept", true),
        (
            r#"{"log":"lost\n","stream":"stdout","time":"20{"log":"kept\n","stream":"stdout","time":"T"}"#,
            b"kept",
            true,
        ),
        (
            r#"{"log":"lost\n","stream":"stdout","attrs":{"a":"{"log":"kept\n","stream":"stdout","attrs":{},"time":"T"}"#,
            b"kept",
            true,
        ),
        (r#"{"l{"log":"lost{"log":"kept\n","stream":"stdout","time":"T"}"#, b"kept", true),
        (
            "{\"log\":\"lost\0\0\0{\"log\":\"kept\\n\",\"stream\":\"stdout\",\"time\":\"T\"}",
            b"kept",
            true,
        ),
        ("\0\0{\"log\":\"kept\\n\",\"stream\":\"stdout\",\"time\":\"T\"}", b"kept", true),
    ];
    for (line, text, full) in rows {
        let line = line.replace("\"T\"", &format!("\"{TIME}\""));
        let expected = (TIME.to_owned(), Source::Stdout, text.to_vec(), *full);
        assert_eq!(read(line.as_bytes()), Some(expected), "{line}");
        let other = line.replace("\"stream\":\"stdout\"", "\"stream\":\"stderr\"");
        assert_eq!(read(other.as_bytes()).unwrap().1, Source::Stderr, "{other}");
    }
}

#[test]
fn what_is_no_entry_is_none() {
    for line in [
        "",
        "{}",
        "hello",
        r#"{"log":"x","stream":"stdout"}"#,
        r#"{"log":"x","stream":"stdin","time":"2026-01-02T03:04:05Z"}"#,
        r#"{"log":"x","stream":"stdout","time":"now"}"#,
        r#"{"log":"x","stream":"stdout","time":"2026-01-02 03:04:05.6789Z"}"#,
        r#"{"log":"x\q","stream":"stdout","time":"2026-01-02T03:04:05Z"}"#,
        r#"{"log":"x\ud83d","stream":"stdout","time":"2026-01-02T03:04:05Z"}"#,
        r#"{"log":"x\u12g4","stream":"stdout","time":"2026-01-02T03:04:05Z"}"#,
        r#"{"log":"x","stream":"stdout","time":"2026-01-02T03:04:05Z""#,
    ] {
        assert_eq!(read(line.as_bytes()), None, "{line}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_as_it_was(text in any::<String>(), full: bool) {
        let content = if full { format!("{text}\n") } else { text };
        let log = serde_json::to_string(&content).unwrap();
        let line = format!(r#"{{"log":{log},"stream":"stderr","time":"{TIME}"}}"#);
        let entry = LogEntry::new(TIME, Source::Stderr, content.as_bytes());
        let mut scratch = Vec::new();
        prop_assert_eq!(parse(line.as_bytes(), &mut scratch), Some(entry));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..60) {
        let whole = format!(r#"{{"log":"kept\n","stream":"stdout","time":"{TIME}"}}"#);
        let _ = parse(&bytes, &mut Vec::new());
        let mut torn = whole.as_bytes()[..at].to_vec();
        torn.extend_from_slice(whole.as_bytes());
        prop_assert_eq!(read(&torn).unwrap().2, b"kept");
    }
}
