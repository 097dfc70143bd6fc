//! Tests a count of lines at the limit of `u32`, because other programs may have written to the CRI file.

use super::*;

#[test]
fn a_count_that_is_full_stays_full() {
    let time = "2026-11-20T11:21:31Z".parse().unwrap();
    let written = Written { lines: HashMap::from([(time, u32::MAX)]) };
    assert_eq!(written.clone().and_older(written.clone()), written);
}
