//! Writes the page of `make conformance` from the folders of its runs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it runs on a developer's machine and fails by panicking"
)]

use std::{env, fs, path::PathBuf};

#[path = "html.rs"]
mod html;
#[path = "page.rs"]
mod page;
#[path = "run.rs"]
mod run;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [runs, out, commit] = &arguments[..] else { panic!("usage: conformance RUNS OUT COMMIT") };
    let folders = fs::read_dir(runs).unwrap().flatten().map(|entry| entry.path());
    let runs: Vec<run::Run> = folders.map(|folder| run::Run::read(&folder, commit)).collect();
    let page = page::markdown(&runs, commit);
    let out = PathBuf::from(out);
    fs::write(out.join("conformance.html"), html::from(&page)).unwrap();
    fs::write(out.join("conformance.md"), page).unwrap();
}
