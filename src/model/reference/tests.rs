//! Tests of the grammar of image references, with examples and with random texts.

#![allow(clippy::string_slice, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn full(text: &str) -> String {
    ImageReference::parse(text).unwrap().to_string()
}

#[test]
fn every_spelling_becomes_the_full_one() {
    let digest = format!("sha256:{HEX}");
    for (given, expected) in [
        ("busybox", "docker.io/library/busybox".to_owned()),
        ("busybox:1.36", "docker.io/library/busybox:1.36".to_owned()),
        ("library/busybox", "docker.io/library/busybox".to_owned()),
        ("docker.io/busybox", "docker.io/library/busybox".to_owned()),
        ("index.docker.io/busybox:x", "docker.io/library/busybox:x".to_owned()),
        ("index.docker.io/library/busybox", "docker.io/library/busybox".to_owned()),
        ("me/app", "docker.io/me/app".to_owned()),
        ("a/b/c:d", "docker.io/a/b/c:d".to_owned()),
        ("localhost/app", "localhost/app".to_owned()),
        ("localhost:5000", "docker.io/library/localhost:5000".to_owned()),
        ("localhost:5000/app:1", "localhost:5000/app:1".to_owned()),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10".to_owned()),
        ("[::1]:5000/app", "[::1]:5000/app".to_owned()),
        ("[2001:db8::1]/app", "[2001:db8::1]/app".to_owned()),
        ("Host/app", "Host/app".to_owned()),
        ("a__b/c--d.e_f", "docker.io/a__b/c--d.e_f".to_owned()),
        (&format!("busybox@{digest}"), format!("docker.io/library/busybox@{digest}")),
        (&format!("busybox:1@{digest}"), format!("docker.io/library/busybox:1@{digest}")),
        (&format!("app:{}", &HEX[..40]), format!("docker.io/library/app:{}", &HEX[..40])),
    ] {
        assert_eq!(full(given), expected, "{given}");
    }
}

#[test]
fn what_is_no_reference_is_refused() {
    let long_path = "a".repeat(256);
    let long_tag = format!("busybox:{}", "a".repeat(129));
    let sha_id = format!("sha256:{HEX}");
    let upper_digest = format!("busybox@sha256:{}", HEX.to_uppercase());
    let short_digest = format!("busybox@sha256:{}", &HEX[..63]);
    let odd_digest = format!("busybox@md5:{}", &HEX[..32]);
    let mut refused: Vec<&str> = vec![HEX, &sha_id, &long_path, &long_tag];
    refused.extend([upper_digest.as_str(), &short_digest, &odd_digest]);
    refused.extend(["", " ", "/", ":", "@", ":tag", "@sha256:", "busybox:", "busybox@", "a//b"]);
    refused.extend(["../etc/passwd", "a/../b", "./a", "a/./b", "..", "a/..", "registry.io/../x"]);
    refused.extend(["/abs", "a/", "busy box", "busybox\n", "busybox:a b", "busybox:\u{7f}"]);
    refused.extend(["Busybox", "library/Busybox", "docker.io/Busybox", "é", "a/é", "É/a"]);
    refused.extend(["a..b", "a.-b", "a___b", "-a", "a-", "_a", ".a", "a.", "a?x=1", "a%2fb"]);
    refused.extend(["host.:80/a", "-host.x/a", "host-.x/a", ".host/a", "host:x/a", "host:/a"]);
    refused.extend(["[]/a", "[::1/a", "[::g]/a", "x:1:2/a", "docker.io/", "localhost:5000/"]);
    refused.extend(["busybox:.x", "busybox:-x", "a:b:c", "a@b@c", "user:pass@host.io/a"]);
    for text in refused {
        assert!(ImageReference::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_error_names_the_text_and_stays_short() {
    let error = ImageReference::parse(&"A".repeat(1 << 20)).unwrap_err();
    assert_eq!(error.text.len(), SHOWN_CHARS);
    let error = ImageReference::parse("Busybox").unwrap_err();
    assert_eq!(
        error.to_string(),
        "not an image reference: \"Busybox\": the repository must be lower case"
    );
}

#[test]
fn a_tag_is_added_only_where_nothing_is_stated() {
    let tagged = |text: &str| ImageReference::parse(text).unwrap().with_default_tag().to_string();
    assert_eq!(tagged("busybox"), "docker.io/library/busybox:latest");
    assert_eq!(tagged("busybox:1"), "docker.io/library/busybox:1");
    let pinned = format!("docker.io/library/busybox@sha256:{HEX}");
    assert_eq!(tagged(&pinned), pinned);
}

#[test]
fn parts_are_readable() {
    let text = format!("host.io:443/a/b:t@sha256:{HEX}");
    let reference = ImageReference::parse(&text).unwrap();
    assert_eq!(reference.domain(), "host.io:443");
    assert_eq!(reference.repository(), "host.io:443/a/b");
    assert_eq!(reference.tag(), Some("t"));
    assert_eq!(reference.digest(), Some(format!("sha256:{HEX}").as_str()));
}

#[test]
fn ids_differ_from_names() {
    assert!(names_id(HEX));
    assert!(names_id(&format!("sha256:{HEX}")));
    assert!(!names_id(&HEX[..12]));
    assert!(!names_id("cafe"));
    assert!(names_id(&format!("sha512:{HEX}{HEX}")));
    for name in [format!("app:{HEX}"), format!("sha512:{HEX}"), format!("sha256:{}", &HEX[..40])] {
        assert!(!names_id(&name), "{name}");
        assert!(ImageReference::parse(&name).is_ok(), "{name}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_is_safe(text in any::<String>()) {
        if let Ok(reference) = ImageReference::parse(&text) {
            let full = reference.to_string();
            prop_assert!(full.bytes().all(|b| b.is_ascii_graphic()));
            prop_assert!(!full.contains("..") && !full.contains("//"));
        }
    }

    #[test]
    fn reading_back_changes_nothing(
        text in "([a-zA-Z0-9.:-]{1,8}/)?[a-z0-9._/-]{1,12}(:[A-Za-z0-9_.-]{1,6})?"
    ) {
        if let Ok(reference) = ImageReference::parse(&text) {
            prop_assert_eq!(&ImageReference::parse(&reference.to_string()).unwrap(), &reference);
            prop_assert!(!reference.repository().split('/').any(|part| part == ".." || part.is_empty()));
        }
    }
}

#[test]
fn a_password_in_a_name_is_hidden() {
    let digest = format!("sha256:{HEX}");
    for (name, shown) in [
        ("user:S3CR3T@registry.example/x".to_owned(), "registry.example/x".to_owned()),
        ("https://user:S3CR3T@registry.example/x".to_owned(), "registry.example/x".to_owned()),
        ("user:S3@CR3T@registry.example/x".to_owned(), "registry.example/x".to_owned()),
        ("user:S3CR3T@registry.example".to_owned(), "registry.example".to_owned()),
        ("user:S3CR3T @registry.example/x".to_owned(), "registry.example/x".to_owned()),
        (format!("user:S3CR3T@registry/x@{digest}"), format!("registry/x@{digest}")),
        (format!("user:S3CR3T@registry:5000/x:1@{digest}"), format!("registry:5000/x:1@{digest}")),
        (format!("x@{digest}"), format!("x@{digest}")),
        ("user:S3CR3T@sha256.example:5000/x".to_owned(), "sha256.example:5000/x".to_owned()),
        ("user:S3CR3T@sha256:5000/x".to_owned(), "sha256:5000/x".to_owned()),
        ("UPPER@sha256:00".to_owned(), "UPPER@sha256:00".to_owned()),
        ("busybox".to_owned(), "busybox".to_owned()),
    ] {
        assert_eq!(printable(&name), shown, "{name}");
        if let Err(error) = ImageReference::parse(&name) {
            assert!(!error.to_string().contains("S3"), "{error}");
        }
    }
}

/// The engine limits the length of the name with the prefix `library/`, so this test counts the prefix.
#[test]
fn the_longest_name_is_read_as_it_is_printed() {
    let longest = ImageReference::parse(&"a".repeat(255 - "library/".len())).unwrap();
    assert_eq!(ImageReference::parse(&longest.to_string()), Ok(longest));
    ImageReference::parse(&"a".repeat(255 - "library/".len() + 1)).unwrap_err();
}
