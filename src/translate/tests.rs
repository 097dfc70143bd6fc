//! Fixtures: files that hold what was given beside what came out.
//!
//! `DOCKBRIDGE_BLESS=1` writes what came out into them; read the diff before you keep it.

use std::{fs, path::Path};

use serde_json::Value;

/// Plays every fixture of a folder below `tests/fixtures`, of which there are `least` or more:
/// `play` writes anew what came out, and nothing may have changed.
pub(super) fn fixtures(folder: &str, least: usize, play: impl Fn(&mut Value)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let found: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(found.len() >= least, "only {} fixtures were found", found.len());
    for path in found {
        let kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let mut played = kept.clone();
        play(&mut played);
        if std::env::var_os("DOCKBRIDGE_BLESS").is_some() {
            fs::write(&path, serde_json::to_string_pretty(&played).unwrap() + "\n").unwrap();
        } else {
            assert_eq!(kept, played, "{}", path.display());
        }
    }
}
