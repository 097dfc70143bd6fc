//! However the bytes of a list are split, the splitter returns whole entries, and an error for an entry that is too
//! large.

use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::ListSplitter;

fn read(splitter: &mut ListSplitter, bytes: &[u8]) -> Vec<Option<Value>> {
    let mut input = Bytes::copy_from_slice(bytes);
    std::iter::from_fn(|| splitter.next(&mut input))
        .map(|entry| entry.ok().and_then(|json| serde_json::from_slice(&json).ok()))
        .collect()
}

proptest! {
    #[test]
    fn entries_come_through_any_cut(
        texts in proptest::collection::vec(any::<String>(), 0..12),
        cut in 1..40_usize,
    ) {
        let entries: Vec<Value> = texts.iter().map(|text| json!({ "a": [text, {}], "\\": text })).collect();
        let bytes = serde_json::to_vec_pretty(&entries).unwrap();
        let mut splitter = ListSplitter::new(bytes.len());
        let mut seen = Vec::new();
        for chunk in bytes.chunks(cut) {
            prop_assert_eq!(splitter.is_complete(), false);
            seen.extend(read(&mut splitter, chunk).into_iter().flatten());
        }
        prop_assert_eq!(splitter.is_complete(), true);
        prop_assert_eq!(seen, entries);
    }

    #[test]
    fn nothing_makes_it_panic(bytes in r#"[\[\]{}\",:\\\\a1 \n]{0,60}"#, cut in 1..9_usize) {
        let (mut whole, mut parts) = (ListSplitter::new(LIMIT), ListSplitter::new(LIMIT));
        let at_once = read(&mut whole, bytes.as_bytes());
        let chunks = bytes.as_bytes().chunks(cut);
        let seen: Vec<_> = chunks.flat_map(|chunk| read(&mut parts, chunk)).collect();
        prop_assert_eq!(seen, at_once);
        prop_assert_eq!(parts.is_complete(), whole.is_complete());
    }
}

const LIMIT: usize = 20;

#[test]
fn an_entry_that_is_too_large_or_unreadable_hides_no_other() {
    for (bytes, expected) in [
        (r#"[{"a":"1234567890123"},{"b":1}]"#, vec![None, Some(json!({ "b": 1 }))]),
        (
            r#"[{"a":"123\"],{\\"},{"b":1}]"#,
            vec![Some(json!({ "a": "123\"],{\\" })), Some(json!({ "b": 1 }))],
        ),
        (r#"[{"a":"\"]12345678901"},{"b":1}]"#, vec![None, Some(json!({ "b": 1 }))]),
        (r#"[{"a" 1},{"b":1}]"#, vec![None, Some(json!({ "b": 1 }))]),
        (r#"[{"a":[[{}],1,2,3,4,5,6,7]},17,null]"#, vec![None, Some(json!(17)), Some(json!(null))]),
        (" [ ]\n", vec![]),
    ] {
        let mut splitter = ListSplitter::new(LIMIT);
        assert_eq!(read(&mut splitter, bytes.as_bytes()), expected, "{bytes}");
        assert!(splitter.is_complete(), "{bytes}");
    }
}

#[test]
fn the_error_of_a_large_entry_shows_its_start() {
    let mut input = Bytes::from(format!(r#"[{{"Id":"abc","Labels":"{}"}}]"#, "x".repeat(1000)));
    let error = ListSplitter::new(500).next(&mut input).unwrap().unwrap_err();
    assert!(error.contains("larger than 500 bytes"), "{error}");
    assert!(error.contains(r#"{\"Id\":\"abc\""#), "{error}");
    assert!(error.len() < 500, "{error}");
}

/// An error page or half a list must not look like an engine without containers.
#[test]
fn only_a_whole_list_is_complete() {
    for bytes in ["", "[", "[{}", "[{},", "[{]", "null", "x[]", "<p>[]</p>", "\"[]\"", "{}", "[]]"]
    {
        let mut splitter = ListSplitter::new(LIMIT);
        read(&mut splitter, bytes.as_bytes());
        assert!(!splitter.is_complete(), "{bytes}");
    }
}
