//! Holds the shape of the code: which room may know which, where foreign things may be named, and
//! how large things may grow. A breach names the file and the line.
//!
//! The table of rooms below is the architecture; `docs/architecture.md` tells why it is so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "architecture/arrows.rs"]
mod arrows;
#[path = "architecture/budgets.rs"]
mod budgets;
#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/foreign.rs"]
mod foreign;
#[path = "architecture/manners.rs"]
mod manners;
#[path = "architecture/source.rs"]
mod source;

use source::File;

/// Fails with every breach, one for each line.
fn hold(what: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{what}:\n  {}", breaches.join("\n  "));
}

/// All code that ships: `src` without tests.
fn shipped() -> Vec<File> {
    let files: Vec<File> =
        source::files("src").into_iter().filter(|file| !file.is_test()).collect();
    assert!(files.len() > 20, "the sources were not found");
    files
}
