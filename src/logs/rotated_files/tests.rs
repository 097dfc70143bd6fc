//! Lists the engine's log files of a container while the engine rotates them.

use std::{
    fs,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;

/// Rotates the files as the engine does. The new file contains `made`, its number in the order of creation.
fn rotate(source: &Path, made: u32) {
    for number in (0..FILES).rev() {
        // The first rename replaces the oldest file.
        let _ = fs::rename(numbered(source, number), numbered(source, number + 1));
    }
    let draft = source.with_extension("draft");
    fs::write(&draft, made.to_ne_bytes()).unwrap();
    fs::rename(draft, source).unwrap();
}

#[test]
fn files_come_in_order_and_without_a_hole_however_often_they_are_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("json.log");
    (0..FILES).for_each(|made| rotate(&source, made));
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut made = FILES..;
            while !end.load(Ordering::Relaxed) {
                rotate(&source, made.next().unwrap());
            }
        });
        for _ in 0..LISTS {
            // If the engine rotates all the time, listing may fail, but must not return a wrong order.
            let Ok(found) = find_files(&source, None) else { continue };
            let made: Vec<u32> = found.files.iter().map(|file| made(&file.file)).collect();
            let in_order = made.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            assert!(in_order && made.len() >= 2, "{made:?}");
        }
        end.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_left_is_in_the_current_file_and_all_newer_ones() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("json.log");
    for (number, bytes) in [(0, 5), (1, 70), (2, 600)] {
        fs::write(numbered(&source, number), vec![b'x'; bytes]).unwrap();
    }
    let (mut files, _) = RotatedFiles::begin(&source, None).unwrap();
    assert_eq!(files.left(100).unwrap(), 500 + 70 + 5);
    assert!(files.advance());
    assert_eq!(files.left(70).unwrap(), 5);
}

fn made(file: &File) -> u32 {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u32::from_ne_bytes(bytes)
}

const FILES: u32 = 4;
const LISTS: u32 = 500;
