//! The clock was set back, so birth times do not have the order of the files, and times of entries do not
//! have the order of the entries.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    beginnings::{begin, drain, json, numbers},
    make_after, *,
};

/// Creates the last of `files` first, so its birth time is the earliest.
fn write_in_reverse(files: &[(&Path, &str)]) {
    let mut last = None;
    for (path, text) in files.iter().rev() {
        make_after(path, last);
        fs::write(path, text).unwrap();
        last = Some(*path);
    }
}

fn log(dir: &Path) -> PathBuf {
    dir.join("pod/main/0.log")
}

#[test]
fn the_numbers_of_the_engines_files_give_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let name = |name: &str| dir.path().join(name);
    let (one, two) = (json(0..10), json(10..20));
    write_in_reverse(&[
        (&name("json.log.2"), &one),
        (&name("json.log.1"), &two),
        (&name("json.log"), &json(20..30)),
    ]);
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    assert_eq!(numbers(&log(dir.path())), (0..30).collect::<Vec<_>>());
    assert_eq!(tailer.take_losses().gaps, 0);
}

#[test]
fn a_rotation_is_followed_to_a_file_with_an_earlier_birth() {
    for restart in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (source, next) = (dir.path().join("json.log"), dir.path().join("next"));
        write_in_reverse(&[(&source, &json(0..10)), (&next, &json(20..30))]);
        let mut tailer = begin(dir.path(), None);
        drain(&mut tailer);
        let position = tailer.position();
        let rotated = source.with_extension("log.1");
        fs::rename(&source, &rotated).unwrap();
        fs::write(&rotated, json(0..20)).unwrap();
        fs::rename(&next, &source).unwrap();
        if restart {
            tailer = begin(dir.path(), Some(position));
        }
        drain(&mut tailer);
        assert_eq!(numbers(&log(dir.path())), (0..30).collect::<Vec<_>>());
        assert_eq!(tailer.take_losses().gaps, 0);
    }
}

/// kubelet has renamed the CRI file. The new CRI file has an earlier birth time than the renamed CRI file.
#[test]
fn an_old_position_counts_all_younger_cri_files() {
    let dir = tempfile::tempdir().unwrap();
    let (log, next) = (log(dir.path()), dir.path().join("pod/main/next"));
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    write_in_reverse(&[(&log, ""), (&next, "")]);
    fs::write(dir.path().join("json.log"), json(0..10)).unwrap();
    let mut tailer = begin(dir.path(), None);
    let early = tailer.position();
    drain(&mut tailer);
    let old = log.with_file_name("0.log.20260101-000000");
    fs::rename(&log, &old).unwrap();
    fs::rename(&next, &log).unwrap();
    tailer.reopen().unwrap();
    fs::write(dir.path().join("json.log"), json(0..20)).unwrap();
    drain(&mut tailer);
    for position in [early.clone(), tailer.position()] {
        drain(&mut begin(dir.path(), Some(position)));
        assert_eq!(numbers(&old), (0..10).collect::<Vec<_>>());
        assert_eq!(numbers(&log), (10..20).collect::<Vec<_>>());
    }
    // kubelet renames the CRI file again, and no new CRI file exists, so dockbridge continues the CRI file that was
    // renamed last.
    let young = log.with_file_name("0.log.20251231-000000");
    fs::rename(&log, &young).unwrap();
    fs::write(dir.path().join("json.log"), json(0..25)).unwrap();
    drain(&mut begin(dir.path(), Some(early)));
    assert_eq!(numbers(&young), (10..25).collect::<Vec<_>>());
    assert!(!log.exists());
}

/// Makes the entries `ids`. Entries 0 to 9 have later times than all others.
fn set_back(ids: std::ops::Range<usize>) -> String {
    let [late, early] = [ids.start.min(10)..ids.end.min(10), ids.start.max(10)..ids.end.max(10)];
    json(late).replace("2026-01-01", "2026-01-02") + &json(early)
}

#[test]
fn a_lost_position_repeats_and_loses_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let (log, source) = (log(dir.path()), dir.path().join("json.log"));
    for is_rotated in [false, true] {
        fs::write(&source, set_back(0..10)).unwrap();
        let mut tailer = begin(dir.path(), None);
        drain(&mut tailer);
        let old = log.with_file_name("0.log.20260102-000000");
        if is_rotated {
            fs::rename(&log, &old).unwrap();
            tailer.reopen().unwrap();
        }
        fs::write(&source, set_back(0..15)).unwrap();
        drain(&mut tailer);
        fs::write(&source, set_back(0..20)).unwrap();
        let mut tailer = begin(dir.path(), None);
        drain(&mut tailer);
        assert_eq!(tailer.take_losses().gaps, 0);
        assert_eq!(numbers(&log), (if is_rotated { 10 } else { 0 }..20).collect::<Vec<_>>());
        fs::remove_dir_all(log.parent().unwrap()).unwrap();
    }
}

#[test]
fn a_full_disk_and_a_truncated_file_lose_no_later_line() {
    let dir = tempfile::tempdir().unwrap();
    let (log, source) = (log(dir.path()), dir.path().join("json.log"));
    fs::write(&source, set_back(0..5)).unwrap();
    let mut tailer = begin(dir.path(), None);
    drain(&mut tailer);
    fs::write(&source, set_back(0..10)).unwrap();
    tailer.writer.room = Some(70);
    tailer.step(&mut Buffers::default()).unwrap_err();
    assert!(tailer.writer.is_behind());
    fs::write(&source, set_back(10..40)).unwrap();
    tailer.writer.room = None;
    drain(&mut tailer);
    // The full disk cut entry 6 short. The truncation then removed the entries 6 to 9, which were not completely
    // copied, from the engine's file.
    assert_eq!(numbers(&log), (0..6).chain(10..40).collect::<Vec<_>>());
    assert_eq!(tailer.take_losses().gaps, 1);
}
