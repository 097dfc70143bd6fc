//! Every subject of `dockbridge check` has a section in `docs/check.md`, and every section there is a subject.

use std::{fs, path::Path};

use dockbridge::check::subject::Subject;

#[test]
fn every_subject_of_the_check_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/check.md");
    let text = fs::read_to_string(path).unwrap();
    let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, Subject::ALL.map(Subject::name), "docs/check.md and the code differ");
}
