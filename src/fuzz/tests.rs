//! Runs each fuzz target with its committed inputs: inputs that once broke a decoder, and inputs that reach much of the
//! decoder's code.

use std::{collections::BTreeSet, fs, path::Path};

use super::TARGETS;
use crate::fuzz_input::portions;

#[test]
fn committed_inputs_are_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let inputs = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut some = false;
        for input in inputs {
            let path = input.unwrap().path();
            println!("{} reads {}", target.name, path.display());
            (target.read)(&fs::read(path).unwrap());
            some = true;
        }
        assert!(some, "{} has no inputs", target.name);
    }
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let folders = fs::read_dir(&corpus).unwrap();
    let folders = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    assert_eq!(folders.collect::<BTreeSet<_>>(), names, "each folder is of a decoder, once");
}

#[test]
fn portions_are_the_whole() {
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let pieces = portions(&bytes);
        assert_eq!(pieces.concat(), bytes);
        assert!(pieces.iter().all(|piece| !piece.is_empty()));
    }
}
