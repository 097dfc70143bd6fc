//! How a failure is shown.

use std::io;

use super::chain;

#[test]
fn causes_are_not_repeated() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);
    #[derive(Debug, thiserror::Error)]
    #[error("outer: inner")]
    struct Repeating(#[source] io::Error);
    let inner = || io::Error::other("inner");
    assert_eq!(chain(&Outer(inner())), "outer: inner");
    assert_eq!(chain(&Repeating(inner())), "outer: inner");
}
