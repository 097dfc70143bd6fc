//! Checks the structure of the code: module levels, import cycles, where foreign crates may be used, sizes,
//! and code rules. Checks the documents: links have targets, all logged warnings and errors and all subjects
//! of `dockbridge check` are listed, and the text avoids constructions from other languages. A failed test names
//! what breaks the rule. `docs/architecture.md` explains the rules for modules.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

#[path = "architecture/check_page.rs"]
mod check_page;
#[path = "architecture/code_rules.rs"]
mod code_rules;
#[path = "architecture/commands.rs"]
mod commands;
#[path = "architecture/figures.rs"]
mod figures;
#[path = "architecture/fixtures.rs"]
mod fixtures;
#[path = "architecture/foreign_names.rs"]
mod foreign_names;
#[path = "architecture/import_cycles.rs"]
mod import_cycles;
#[path = "architecture/levels.rs"]
mod levels;
#[path = "architecture/links.rs"]
mod links;
#[path = "architecture/log_messages.rs"]
mod log_messages;
#[path = "architecture/module_levels.rs"]
mod module_levels;
#[path = "pictures/all.rs"]
mod pictures;
#[path = "architecture/plain_english.rs"]
mod plain_english;
#[path = "architecture/size_limits.rs"]
mod size_limits;
#[path = "architecture/source.rs"]
mod source;
#[path = "messages/texts.rs"]
mod texts;

use source::File;

/// Fails the test if there are violations, and prints each of them on a line.
fn hold(what: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{what}:\n  {}", breaches.join("\n  "));
}

/// The Rust files below `src` that a release contains: without tests and entry points for `make fuzz`.
fn shipped() -> Vec<File> {
    let files: Vec<File> =
        source::files("src").into_iter().filter(|file| !file.is_test()).collect();
    assert!(files.len() > 20, "the sources were not found");
    files
}

/// If this test fails, run `make pictures`, which draws the pictures again.
#[test]
fn pictures_are_as_the_code_and_the_data_are() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    let all = pictures::pictures().into_iter();
    let stale = all.filter(|(name, picture)| {
        std::fs::read_to_string(folder.join(name)).ok().as_ref() != Some(picture)
    });
    let stale: Vec<String> = stale.map(|(name, _)| format!("docs/pictures/{name}")).collect();
    hold("pictures to be drawn again: run make pictures", &stale);
}
