//! Tests from which place a log resumes, for example without a saved position, or after the engine has removed files.

use std::{fmt::Write as _, fs, os::unix::fs::symlink, path::Path};

use super::*;
use crate::error::WithKind;

pub(super) fn json(ids: std::ops::Range<usize>) -> String {
    ids.fold(String::new(), |mut text, id| {
        let time = format!("2026-01-01T{:02}:{:02}:{:02}.1Z", id / 3600, id / 60 % 60, id % 60);
        writeln!(text, r#"{{"log":"line {id}\n","stream":"stdout","time":"{time}"}}"#).unwrap();
        text
    })
}

pub(super) fn begin(dir: &Path, position: Option<Position>) -> JsonFileTailer {
    begin_created(dir, position, Nanos(1))
}

fn begin_created(dir: &Path, position: Option<Position>, created_at: Nanos) -> JsonFileTailer {
    let place = LogPath::of(&dir.join("pod/main/0.log"), None).unwrap();
    JsonFileTailer::resume(&dir.join("json.log"), place, position, created_at).unwrap()
}

pub(super) fn drain(tailer: &mut JsonFileTailer) {
    while tailer.step(&mut Buffers::default()).unwrap().has_more {}
}

/// The numbers at the ends of the lines of a CRI file.
pub(super) fn numbers(path: &Path) -> Vec<usize> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn nothing_to_follow_leaves_the_place_alone() {
    let dir = tempfile::tempdir().unwrap();
    let place = LogPath::of(&dir.path().join("pod/main/0.log"), None).unwrap();
    let refused =
        JsonFileTailer::resume(&dir.path().join("json.log"), place, None, Nanos(1)).unwrap_err();
    assert_eq!(refused.kind(), crate::error::Kind::FailedPrecondition);
    assert!(!dir.path().join("pod").exists());
}

#[test]
fn a_lost_position_repeats_no_line_and_mends_a_torn_one() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("pod/main/0.log");
    fs::write(dir.path().join("json.log.1"), json(0..50)).unwrap();
    fs::write(dir.path().join("json.log"), json(50..70)).unwrap();
    drain(&mut begin(dir.path(), None));
    let whole = fs::read(&log).unwrap();
    for left in [whole.len(), whole.len() - 7, whole.len() / 2, 10, 0] {
        fs::write(&log, &whole[..left]).unwrap();
        drain(&mut begin(dir.path(), None));
        assert_eq!(numbers(&log), (0..70).collect::<Vec<_>>());
    }
    // kubelet renames the CRI file, so the written lines are in the renamed file.
    fs::rename(&log, log.with_file_name("0.log.old")).unwrap();
    fs::write(dir.path().join("json.log"), json(50..80)).unwrap();
    drain(&mut begin(dir.path(), None));
    assert_eq!(numbers(&log), (70..80).collect::<Vec<_>>());
}

/// CRI lines that are older than the container come from an earlier container with the same log path.
#[test]
fn lines_of_an_earlier_container_are_no_loss() {
    let time = |text: &str| {
        let time: jiff::Timestamp = text.parse().unwrap();
        Nanos(i64::try_from(time.as_nanosecond()).unwrap())
    };
    for (created_at, gaps) in [("2026-01-01T00:01:00Z", 0), ("2025-12-31T23:59:00Z", 1)] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("json.log"), json(0..10)).unwrap();
        drain(&mut begin(dir.path(), None));
        fs::remove_file(dir.path().join("json.log")).unwrap();
        fs::write(dir.path().join("json.log"), json(100..105)).unwrap();
        let mut tailer = begin_created(dir.path(), None, time(created_at));
        drain(&mut tailer);
        assert_eq!(tailer.losses.gaps, gaps, "created at {created_at}");
        let lines: Vec<usize> = (0..10).chain(100..105).collect();
        assert_eq!(numbers(&dir.path().join("pod/main/0.log")), lines);
    }
}

#[test]
fn a_position_ahead_of_the_file_loses_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("pod/main/0.log");
    fs::write(dir.path().join("json.log"), json(0..50)).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    // Simulates a power failure: the position was flushed to disk, but the lines were not.
    fs::File::options().write(true).open(&log).unwrap().set_len(500).unwrap();
    drain(&mut begin(dir.path(), Some(tailer.position())));
    assert_eq!(numbers(&log), (0..50).collect::<Vec<_>>());
}

#[test]
fn a_link_becomes_a_file_with_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("pod/main/0.log");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    symlink(dir.path().join("json.log"), &log).unwrap();
    let filler = "x".repeat(9 << 20);
    let old = format!("{}{filler}\n{}", json(0..5), json(5..10));
    fs::write(dir.path().join("json.log.2"), json(0..1)).unwrap();
    fs::write(dir.path().join("json.log.1"), old).unwrap();
    fs::write(dir.path().join("json.log"), format!("{filler}\n{}", json(10..20))).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    assert!(!log.is_symlink());
    assert_eq!(numbers(&log), (5..20).collect::<Vec<_>>());
}

#[test]
fn lost_files_are_reported_and_other_lines_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let (log, source) = (dir.path().join("pod/main/0.log"), dir.path().join("json.log"));
    fs::write(&source, json(0..10)).unwrap();
    let mut tailer = begin(dir.path(), None);
    let early = tailer.position();
    drain(&mut tailer);
    fs::remove_file(&source).unwrap();
    fs::write(dir.path().join("json.log.1"), json(20..25)).unwrap();
    fs::write(&source, json(25..30)).unwrap();
    drain(&mut tailer);
    assert_eq!(tailer.take_losses(), Losses { unreadable: 0, gaps: 1 });
    let expected: Vec<usize> = (0..10).chain(20..30).collect();
    assert_eq!(numbers(&log), expected);
    let mut tailer = begin(dir.path(), Some(early));
    drain(&mut tailer);
    assert_eq!(tailer.take_losses().gaps, 1);
    assert_eq!(numbers(&log), expected);
}

#[test]
fn a_file_that_the_engine_empties_is_read_again_from_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let (log, source) = (dir.path().join("pod/main/0.log"), dir.path().join("json.log"));
    fs::write(&source, json(0..10)).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    fs::write(&source, json(10..12)).unwrap();
    drain(&mut tailer);
    drain(&mut tailer);
    assert_eq!(tailer.take_losses().gaps, 1);
    assert_eq!(numbers(&log), (0..12).collect::<Vec<_>>());
}

/// dockbridge is killed while it writes a line, and kubelet rotates the log before dockbridge opens it again.
#[test]
fn a_half_line_before_a_new_file_is_written_whole_to_that_file() {
    let dir = tempfile::tempdir().unwrap();
    let (log, source) = (dir.path().join("pod/main/0.log"), dir.path().join("json.log"));
    fs::write(&source, json(0..10)).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    let position = tailer.position();
    fs::write(&source, json(0..12)).unwrap();
    drain(&mut tailer);
    let written = fs::read(&log).unwrap();
    fs::write(&log, &written[..written.len() - 5]).unwrap();
    let aside = log.with_file_name("0.log.old");
    fs::rename(&log, &aside).unwrap();
    fs::write(&log, "").unwrap();
    let mut tailer = begin(dir.path(), Some(position));
    drain(&mut tailer);
    assert!(fs::read(&aside).unwrap().ends_with(b"\n"));
    assert_eq!(numbers(&aside), (0..11).collect::<Vec<_>>());
    assert_eq!(numbers(&log), [11]);
}

/// kubelet renames the CRI file while dockbridge opens the log.
#[test]
fn a_file_renamed_while_a_log_begins_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("pod/main/0.log");
    fs::write(dir.path().join("json.log"), json(0..50)).unwrap();
    let mut tailer = begin(dir.path(), None);
    let early = Some(tailer.position());
    drain(&mut tailer);
    let positions = [None, early, Some(tailer.position())];
    let aside = log.with_file_name("0.log.old");
    for round in 0..RACES {
        let position = positions[round % positions.len()].clone();
        let rename = std::thread::spawn({
            let (log, aside) = (log.clone(), aside.clone());
            move || {
                (0..round % 500).for_each(|_| std::hint::spin_loop());
                fs::rename(log, aside).unwrap();
            }
        });
        let place = LogPath::of(&log, None).unwrap();
        let source = dir.path().join("json.log");
        if let Ok(mut tailer) = JsonFileTailer::resume(&source, place, position, Nanos(1)) {
            drain(&mut tailer);
        }
        rename.join().unwrap();
        let is_new = fs::metadata(&log).is_ok_and(|file| file.len() > 0);
        assert!(!is_new, "round {round}: {:?}", numbers(&log));
        fs::rename(&aside, &log).unwrap();
    }
}

const RACES: usize = 2000;
