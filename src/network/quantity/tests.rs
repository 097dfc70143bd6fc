//! Tests of the suffixes, the rounding and the limits of quantities.

use super::*;

#[test]
fn decimal_and_binary_suffixes_are_read() {
    for (text, value) in [
        ("1000", 1_000),
        ("+1k", 1_000),
        ("1M", 1_000_000),
        ("1.5M", 1_500_000),
        (".5M", 500_000),
        ("10.M", 10_000_000),
        ("1Ki", 1_024),
        ("1.0001Ki", 1_025),
        ("2e3", 2_000),
        ("2E+3", 2_000),
        ("20000e-1", 2_000),
        ("1000000m", 1_000),
        ("1P", HIGHEST_RATE),
    ] {
        assert_eq!(rate(text), Ok(value), "{text}");
    }
}

#[test]
fn other_texts_are_refused() {
    for text in ["", ".", "M", "1 M", "1kk", "-1M", "1e", "0x10", "1..5", "1.5.5M", "é", "1é"] {
        assert_eq!(rate(text), Err(MALFORMED), "{text}");
    }
    for text in ["0", "999", "1.1P", "1E", "1Ei", "9e99", "1e2000000000", "1e-2000000000"] {
        assert_eq!(rate(text), Err(RANGE), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,40}") {
        let _ = rate(&text);
    }
}
