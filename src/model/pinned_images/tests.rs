//! Which image names and labels a pattern matches.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{LabelPattern, NamePattern, PinnedImages, glob_matches};
use crate::model::{id::ImageId, record::ImageRecord};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn image(tags: &[&str], digests: &[&str], labels: &[(&str, &str)]) -> ImageRecord {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    ImageRecord {
        id: ImageId::try_from(DIGEST).unwrap(),
        repo_tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        repo_digests: digests.iter().map(|name| format!("{name}@{DIGEST}")).collect(),
        size: 1,
        user: String::new(),
        labels: labels.iter().map(pair).collect::<BTreeMap<_, _>>(),
        stop_signal: None,
        volumes: Default::default(),
        inspected: true,
    }
}

#[test]
fn a_pattern_means_names_in_every_spelling() {
    let by_digest = format!("reg.test:5000/app@{DIGEST}");
    let rows: [(&str, &str, bool); 23] = [
        ("busybox:1", "busybox:1", true),
        ("docker.io/library/busybox:1", "busybox:1", true),
        ("library/busybox:1", "busybox:1", false),
        ("busybox", "busybox:1", true),
        ("docker.io/library/busybox", "busybox:1", true),
        ("busybox:2", "busybox:1", false),
        ("busybox:*", "busybox:1", true),
        ("busy", "busybox:1", false),
        ("busy*", "busybox:1", true),
        ("*box*", "busybox:1", true),
        ("*", "busybox:1", true),
        ("*:1", "busybox:1", true),
        ("*:2", "busybox:1", false),
        ("me/*", "me/app:1", true),
        ("docker.io/*", "me/app:1", true),
        ("reg.test:5000/*", "reg.test:5000/team/app:1", true),
        ("reg.test:5000/team/app", "reg.test:5000/team/app:1", true),
        ("reg.test/*", "reg.test:5000/team/app:1", false),
        ("reg.test:5000/*/app:*", "reg.test:5000/team/app:1", true),
        ("reg.test:5000", "reg.test:5000/app:1", false),
        ("app:1", "reg.test:5000/app:1", false),
        ("*/app:1", "reg.test:5000/app:1", true),
        (&by_digest, "other:1", true),
    ];
    for (pattern, name, expected) in rows {
        let digests: &[&str] = if pattern == by_digest { &["reg.test:5000/app"] } else { &[] };
        let read = NamePattern::parse(pattern).unwrap();
        assert_eq!(read.matches(&image(&[name], digests, &[])), expected, "{pattern} {name}");
    }
}

#[test]
fn an_image_without_a_tag_goes_by_its_repository() {
    let untagged = image(&[], &["reg.test/app"], &[]);
    assert!(NamePattern::parse("reg.test/app").unwrap().matches(&untagged));
    assert!(!NamePattern::parse("reg.test/app:1").unwrap().matches(&untagged));
    assert!(!NamePattern::parse("*").unwrap().matches(&image(&[], &[], &[])));
}

#[test]
fn a_label_is_meant_with_any_or_with_one_value() {
    let labelled = image(&[], &[], &[("keep", "yes"), ("team", "")]);
    let rows = [
        ("keep", true),
        ("keep=yes", true),
        (" keep = yes ", true),
        ("keep=no", false),
        ("keep=", false),
        ("team", true),
        ("team=", true),
        ("kee", false),
    ];
    for (pattern, expected) in rows {
        let label = LabelPattern::parse(pattern).unwrap();
        assert_eq!(label.matches(&labelled), expected, "{pattern}");
        let pins = PinnedImages { labels: vec![label], ..PinnedImages::default() };
        assert_eq!(pins.matches(&labelled), expected, "{pattern}");
    }
    assert!(!PinnedImages::default().matches(&labelled));
}

#[test]
fn what_can_match_nothing_is_refused() {
    for text in ["", "a b", "a,b", "ä", "a?", &"a".repeat(1025)] {
        assert!(NamePattern::parse(text).is_none(), "{text}");
    }
    for text in ["", "=", " =x"] {
        assert!(LabelPattern::parse(text).is_none(), "{text}");
    }
}

proptest! {
    /// The fast algorithm for patterns gives the same result as an exhaustive search.
    #[test]
    fn stars_stand_for_anything(pattern in "[ab*]{0,6}", text in "[ab]{0,7}") {
        prop_assert_eq!(glob_matches(&pattern, &text), tried(pattern.as_bytes(), text.as_bytes()));
    }
}

fn tried(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|at| tried(rest, &text[at..])),
        [one, rest @ ..] => {
            text.split_first().is_some_and(|(b, left)| b == one && tried(rest, left))
        }
    }
}
