//! Draws the pictures of the documents into `docs/pictures` (`make pictures`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "it runs on a developer's machine and fails by panicking"
)]

use std::{fs, path::Path};

#[path = "all.rs"]
mod all;
#[path = "../architecture/levels.rs"]
mod levels;
#[path = "../architecture/source.rs"]
#[allow(dead_code, reason = "the tests of the structure use all of it")]
mod source;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    fs::create_dir_all(&folder).unwrap();
    for (name, picture) in all::pictures() {
        fs::write(folder.join(name), &picture).unwrap();
        println!("docs/pictures/{name}: {} bytes", picture.len());
    }
}
