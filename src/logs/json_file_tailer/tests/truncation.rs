//! While dockbridge does not read the engine's log file, another program truncates the file, or a power failure cuts
//! off its end.

use std::{fs, io::Write, path::Path};

use super::{
    beginnings::{begin, drain, json, numbers},
    *,
};

/// Truncates the engine's file in place, and then writes the engine's next output to it.
fn truncate(source: &Path, next: &str) {
    let mut file = fs::File::options().append(true).open(source).unwrap();
    file.set_len(0).unwrap();
    file.write_all(next.as_bytes()).unwrap();
}

/// Copies ten lines to the CRI file, then lets `paused` change the engine's file. If `restart` is true,
/// dockbridge restarts after the change. Returns the numbers of the CRI lines, and the number of gaps.
fn after(restart: bool, paused: impl FnOnce(&Path)) -> (Vec<usize>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("json.log");
    fs::write(&source, json(0..10)).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    let position = tailer.position();
    paused(&source);
    if restart {
        tailer = begin(dir.path(), Some(position));
    }
    drain(&mut tailer);
    drain(&mut tailer);
    (numbers(&dir.path().join("pod/main/0.log")), tailer.take_losses().gaps)
}

#[test]
fn lines_after_a_truncation_are_all_read_however_many() {
    for restart in [false, true] {
        // After the truncation and the new output, the file is shorter than before, a little longer, or much longer.
        for more in [1, 9, 10, 11, 500] {
            let expected: Vec<usize> = (0..10).chain(15..15 + more).collect();
            let found = after(restart, |source| truncate(source, &json(15..15 + more)));
            assert_eq!(found, (expected, 1), "{more} lines, restart: {restart}");
        }
        let emptied = after(restart, |source| truncate(source, ""));
        assert_eq!(emptied, ((0..10).collect(), 1), "restart: {restart}");
    }
}

#[test]
fn a_file_truncated_twice_is_read_from_its_beginning_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("json.log");
    fs::write(&source, json(0..10)).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    for first in [10, 30] {
        truncate(&source, &json(first..first + 20));
        drain(&mut tailer);
        assert_eq!(tailer.take_losses().gaps, 1);
    }
    assert_eq!(numbers(&dir.path().join("pod/main/0.log")), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_truncated_file_that_the_engine_then_rotates_is_read() {
    for restart in [false, true] {
        let (lines, gaps) = after(restart, |source| {
            truncate(source, &json(15..40));
            fs::rename(source, source.with_extension("log.1")).unwrap();
            fs::write(source, json(40..45)).unwrap();
        });
        assert_eq!((lines, gaps), ((0..10).chain(15..45).collect(), 1), "restart: {restart}");
    }
}

/// Logrotate's `copytruncate` gives its copy the same name as the engine gives a rotated file. Lines that the
/// engine writes between the copy and the truncation are lost, so a gap is counted.
#[test]
fn the_copy_of_a_truncated_file_is_read_to_its_end() {
    for restart in [false, true] {
        let found = after(restart, |source| {
            let mut file = fs::File::options().append(true).open(source).unwrap();
            file.write_all(json(10..20).as_bytes()).unwrap();
            fs::copy(source, source.with_extension("log.1")).unwrap();
            truncate(source, &json(20..60));
        });
        assert_eq!(found, ((0..60).collect(), 1), "restart: {restart}");
    }
}

/// After a power failure, the end of the engine's file is lost, but the CRI file is complete.
#[test]
fn a_file_cut_short_doubles_no_line() {
    for restart in [false, true] {
        let found = after(restart, |source| {
            let mut file = fs::File::options().append(true).open(source).unwrap();
            file.set_len(u64::try_from(json(0..7).len()).unwrap()).unwrap();
            file.write_all(json(10..30).as_bytes()).unwrap();
        });
        assert_eq!(found, ((0..30).collect(), 1), "restart: {restart}");
    }
}

#[test]
fn a_truncation_before_the_file_was_begun_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("json.log");
    fs::write(source.with_extension("log.1"), json(0..20)).unwrap();
    fs::write(&source, json(20..25)).unwrap();
    let mut tailer = begin(dir.path(), None);
    tailer.step(&mut Buffers::default()).unwrap();
    truncate(&source, &json(30..60));
    drain(&mut tailer);
    drain(&mut tailer);
    let expected: Vec<usize> = (0..20).chain(30..60).collect();
    assert_eq!(numbers(&dir.path().join("pod/main/0.log")), expected);
    assert_eq!(tailer.take_losses().gaps, 1);
}
