//! However a log file changes, a watch reports one event.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    time::Duration,
};

use nix::sys::stat::{Mode, SFlag, mknod};
use tokio::time::timeout;

use super::*;

/// A directory with one log file, and a [`TailWatch`] with its events.
struct Room {
    watch: TailWatch,
    tidings: TailEvents,
    file: PathBuf,
    directory: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("json.log");
        // Creates the file without opening it: a child process of another test could inherit an open
        // descriptor, and closing that would cause an event.
        mknod(&file, SFlag::S_IFREG, Mode::S_IRUSR | Mode::S_IWUSR, 0).unwrap();
        let (watch, tidings) = TailWatch::open().unwrap();
        Self { watch, tidings, file, directory }
    }

    fn write(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).open(&self.file).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    async fn told(&mut self) -> TailEvent {
        timeout(SOON, self.tidings.next()).await.expect("it tells").unwrap()
    }

    async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(30), self.tidings.next()).await.is_err()
    }
}

#[tokio::test]
async fn a_watch_reports_once_until_it_is_set_again() {
    let mut room = Room::new();
    let tail = room.watch.set(&room.file).unwrap();
    assert!(room.is_silent().await);
    for _ in 0..100 {
        room.write("line\n");
    }
    assert_eq!(room.told().await, TailEvent::Changed(vec![tail]));
    room.write("line\n");
    assert!(room.is_silent().await, "a spent watch tells nothing");
    let again = room.watch.set(&room.file).unwrap();
    assert_ne!(again, tail);
    room.write("line\n");
    assert_eq!(room.told().await, TailEvent::Changed(vec![again]));
}

#[tokio::test]
async fn setting_it_twice_is_one_watch() {
    let mut room = Room::new();
    let tail = room.watch.set(&room.file).unwrap();
    assert_eq!(room.watch.set(&room.file).unwrap(), tail);
    room.write("line\n");
    assert_eq!(room.told().await, TailEvent::Changed(vec![tail]));
    assert!(room.is_silent().await);
}

#[tokio::test]
async fn a_rotated_or_removed_file_is_reported() {
    let mut room = Room::new();
    let tail = room.watch.set(&room.file).unwrap();
    let aside = room.directory.path().join("json.log.1");
    fs::rename(&room.file, &aside).unwrap();
    assert_eq!(room.told().await, TailEvent::Changed(vec![tail]));
    assert!(room.watch.set(&room.file).unwrap_err().is_not_found());

    let _held = fs::File::open(&aside).unwrap();
    let tail = room.watch.set(&aside).unwrap();
    fs::remove_file(&aside).unwrap();
    assert_eq!(room.told().await, TailEvent::Changed(vec![tail]));
}

#[tokio::test]
async fn a_watch_taken_away_is_silent() {
    let mut room = Room::new();
    let tail = room.watch.set(&room.file).unwrap();
    room.watch.remove(tail);
    room.watch.remove(tail);
    room.write("line\n");
    assert!(room.is_silent().await);
}

const SOON: Duration = Duration::from_secs(300);
