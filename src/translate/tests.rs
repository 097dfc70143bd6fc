//! Runs tests with fixtures: JSON files with an input and its expected output.
//!
//! With `DOCKBRIDGE_BLESS=1`, the tests write the current output into the fixtures. Read the diff before you commit it.

use std::{fs, path::Path};

use serde_json::Value;

/// Runs every fixture of a directory below `tests/fixtures`. The directory must have at least `least` fixtures. `run`
/// puts the output into its copy of the fixture. Without `DOCKBRIDGE_BLESS`, the test fails if `run` changes the copy.
pub(crate) fn fixtures(directory: &str, least: usize, run: impl Fn(&mut Value)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(directory);
    let found: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(found.len() >= least, "only {} fixtures were found", found.len());
    for path in found {
        let expected: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut actual = expected.clone();
        run(&mut actual);
        if std::env::var_os("DOCKBRIDGE_BLESS").is_some() {
            fs::write(&path, serde_json::to_string_pretty(&actual).unwrap() + "\n").unwrap();
        } else {
            assert_eq!(expected, actual, "{}", path.display());
        }
    }
}
