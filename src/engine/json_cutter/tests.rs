//! Values are complete for any split, and none is larger than its limit.

use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Cut, Form, JsonCutter, Limits};
use crate::wire::docker::{ImageInspect, Progress, summary::ContainerSummary};

fn read<T: DeserializeOwned>(cutter: &mut JsonCutter, bytes: &[u8]) -> Vec<Cut<T>> {
    let mut input = Bytes::copy_from_slice(bytes);
    std::iter::from_fn(|| cutter.next(&mut input)).collect()
}

fn readable<T: DeserializeOwned>(cutter: &mut JsonCutter, bytes: &[u8]) -> Vec<T> {
    read(cutter, bytes).into_iter().filter_map(|cut| cut.value.ok()).collect()
}

proptest! {
    #[test]
    fn messages_come_through_any_cut(
        texts in proptest::collection::vec(any::<String>(), 0..12),
        joints in proptest::collection::vec(0..4_usize, 12),
        cut in 1..40_usize,
    ) {
        let mut bytes = Vec::new();
        for (text, joint) in texts.iter().zip(&joints) {
            let odd = json!({ "status": text, "t": {}, "u": 1.5 });
            bytes.extend_from_slice(odd.to_string().as_bytes());
            bytes.extend_from_slice(["", "\n", "\r\n", " \n\n"][*joint].as_bytes());
        }
        let mut cutter = JsonCutter::new(Form::Messages);
        let mut seen = Vec::new();
        for chunk in bytes.chunks(cut) {
            seen.extend(readable::<Progress>(&mut cutter, chunk).into_iter().map(|it| it.status));
        }
        prop_assert_eq!(seen, texts);
    }

    #[test]
    fn garbage_costs_at_most_its_line(garbage in any::<Vec<u8>>()) {
        let mut bytes = garbage;
        bytes.extend_from_slice(b"\n{\"status\":\"after\"}\n");
        let seen = readable::<Progress>(&mut JsonCutter::new(Form::Messages), &bytes);
        prop_assert_eq!(&seen.last().expect("the last message").status, "after");
    }

    #[test]
    fn entries_of_a_list_come_through_any_cut(
        texts in proptest::collection::vec(any::<String>(), 0..12),
        cut in 1..40_usize,
    ) {
        let entries: Vec<Value> = texts.iter().map(|text| json!({ "a": [text, {}], "\\": text })).collect();
        let bytes = serde_json::to_vec_pretty(&entries).unwrap();
        let mut cutter = JsonCutter::new(Form::List);
        let mut seen: Vec<Value> = Vec::new();
        for chunk in bytes.chunks(cut) {
            prop_assert_eq!(cutter.is_whole_list(), false);
            seen.extend(readable(&mut cutter, chunk));
        }
        prop_assert_eq!(cutter.is_whole_list(), true);
        prop_assert_eq!(seen, entries);
    }

    #[test]
    fn nothing_makes_it_panic(bytes in r#"[\[\]{}\",:\\\\a1 \n]{0,60}"#, cut in 1..9_usize) {
        for form in [Form::Messages, Form::Document, Form::List] {
            let mut whole = JsonCutter::with_limits(form, SMALL);
            let mut parts = JsonCutter::with_limits(form, SMALL);
            let at_once: Vec<Option<Value>> =
                read(&mut whole, bytes.as_bytes()).into_iter().map(|it| it.value.ok()).collect();
            let chunks = bytes.as_bytes().chunks(cut);
            let seen: Vec<Option<Value>> =
                chunks.flat_map(|chunk| read(&mut parts, chunk)).map(|it| it.value.ok()).collect();
            prop_assert_eq!(seen, at_once);
        }
    }
}

/// A text of ten bytes is too large, and a part of twenty-five.
const SMALL: Limits = Limits { value: 40, part: 25, text: 10 };

#[test]
fn what_is_too_large_is_replaced() {
    for (bytes, expected) in [
        (r#"{"a":"12345678","b":1}"#, r#"{"a":"12345678","b":1}"#),
        (r#"{"a":"1234567890","b":1}"#, r#"{"a":false,"b":1}"#),
        (r#"{"a":"1234\"{6789","b":1}"#, r#"{"a":false,"b":1}"#),
        (r#"{ "1234567890" : 1, "b":[]}"#, r#"{ "" : 1, "b":[]}"#),
        (r#"{"a":{"b":"12345678","c":[1],"d":{"e":2}},"f":3}"#, r#"{"a":false,"f":3}"#),
        (r#"{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14],"f":3}"#, r#"{"a":false,"f":3}"#),
        (r#"{"a":{"b":{"c":"123456789123456789123456789"}}}"#, r#"{"a":{"b":{"c":false}}}"#),
        (r#"{"a":[1,2,3,4,5,6,7],"b":[1,2,3,4,5,6,7],"c":[]}"#, "false"),
    ] {
        let mut seen =
            read::<Value>(&mut JsonCutter::with_limits(Form::Document, SMALL), bytes.as_bytes());
        let cut = seen.pop().expect("a value");
        assert_eq!(cut.value.unwrap(), serde_json::from_str::<Value>(expected).unwrap(), "{bytes}");
        assert_eq!(cut.has_dropped, bytes != expected, "{bytes}");
        assert!(seen.is_empty(), "{bytes}");
    }
}

/// The small labels of an entry, which identify its pod, are kept if another label is too large.
#[test]
fn a_large_label_costs_only_itself() {
    let limits = Limits { text: 1000, part: 1500, value: 5000 };
    let large = "x".repeat(1001);
    let entries = json!([
        { "Id": "a", "Labels": { "k": "v", "large": large } },
        { "Id": "b", "Labels": (0..200).map(|n| (n.to_string(), n.to_string())).collect::<std::collections::BTreeMap<_, _>>() },
        null, 17, "]", { "Id": "c" },
    ]);
    let mut cutter = JsonCutter::with_limits(Form::List, limits);
    let listed: Vec<ContainerSummary> = readable(&mut cutter, entries.to_string().as_bytes());
    assert!(cutter.is_whole_list());
    let seen: Vec<(&str, usize)> =
        listed.iter().map(|entry| (entry.id.as_str(), entry.labels.len())).collect();
    assert_eq!(seen, [("a", 1), ("b", 0), ("c", 0)]);
}

/// If the user were dropped, an image would run as root.
#[test]
fn an_inspect_that_lacks_more_than_labels_is_unreadable() {
    let limits = Limits { text: 100, part: 300, value: 1000 };
    let image = |config: Value| {
        let inspect = json!({ "Id": "sha256:1", "Config": config, "RepoTags": ["a:b"] });
        let mut cutter = JsonCutter::with_limits(Form::Document, limits);
        let mut seen = read::<ImageInspect>(&mut cutter, inspect.to_string().as_bytes());
        seen.pop().expect("a value").value
    };
    let large = "x".repeat(101);
    let read = image(json!({ "User": "7", "Labels": { "k": "v", "large": large } })).unwrap();
    assert_eq!((read.config.user.as_str(), read.config.labels.len()), ("7", 1));
    assert!(image(json!({ "User": large })).is_err());
    let many: Vec<String> = (0..30).map(|n| format!("{n:03}")).collect();
    assert!(image(json!({ "User": "7", "A": many, "B": many })).is_err());
}
