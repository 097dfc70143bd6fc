//! How the text of a failure is built.

use std::io;

use super::{chain, without_numbers};

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

#[test]
fn errors_of_the_kernel_are_shown_without_their_numbers() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot write x")]
    struct Outer(#[source] io::Error);
    let denied = io::Error::from_raw_os_error(13);
    assert_eq!(chain(&Outer(denied)), "cannot write x: Permission denied");
    let text =
        "read x: Permission denied (os error 13); y (No such file or directory (os error 2)): z";
    let words = "read x: Permission denied; y (No such file or directory): z";
    assert_eq!(without_numbers(text), words);
    assert_eq!(without_numbers("no error (os 1)"), "no error (os 1)");
}
