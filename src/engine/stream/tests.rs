//! However the bytes of a stream are split, every message is complete, and no message is larger than the limit.

use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::json;

use super::{LONGEST_LINE, Lines, object};
use crate::wire::docker::Progress;

fn read(lines: &mut Lines, bytes: &[u8]) -> Vec<Result<Progress, String>> {
    let mut input = Bytes::copy_from_slice(bytes);
    let all = std::iter::from_fn(|| lines.next(&mut input));
    all.map(|line| line.and_then(|line| object(&line))).collect()
}

proptest! {
    #[test]
    fn messages_come_through_any_cut(
        texts in proptest::collection::vec(any::<String>(), 0..12),
        ends in proptest::collection::vec(0..3_usize, 12),
        cut in 1..40_usize,
    ) {
        let mut bytes = Vec::new();
        for (text, end) in texts.iter().zip(&ends) {
            let odd = json!({ "status": text, "t": {}, "u": 1.5 });
            bytes.extend_from_slice(odd.to_string().as_bytes());
            bytes.extend_from_slice(["\n", "\r\n", " \n\n"][*end].as_bytes());
        }
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in bytes.chunks(cut) {
            seen.extend(read(&mut lines, chunk).into_iter().map(|it| it.unwrap().status));
        }
        prop_assert_eq!(seen, texts);
    }

    #[test]
    fn garbage_costs_at_most_its_line(garbage in any::<Vec<u8>>()) {
        let mut bytes = garbage;
        bytes.extend_from_slice(b"\n{\"status\":\"after\"}\n");
        let seen = read(&mut Lines::default(), &bytes);
        prop_assert_eq!(seen.last().unwrap().as_ref().unwrap().status.as_str(), "after");
    }
}

#[test]
fn a_line_that_is_too_long_is_not_kept_and_costs_only_itself() {
    let mut lines = Lines::default();
    let piece = vec![b'x'; LONGEST_LINE / 4];
    for _ in 0..8 {
        assert!(read(&mut lines, &piece).is_empty());
        assert!(lines.line.len() <= LONGEST_LINE);
    }
    assert_eq!(lines.line.capacity(), 0);
    let seen = read(&mut lines, b"\n{\"status\":\"after\"}\n");
    let [Err(error), Ok(after)] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(error.contains(&LONGEST_LINE.to_string()), "{error}");
    assert_eq!(after.status, "after");
}
