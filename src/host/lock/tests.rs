//! A second attempt to take a lock names the holder, and a released lock can be taken.

use std::{
    fs,
    os::unix::fs::symlink,
    thread,
    time::{Duration, Instant},
};

use super::*;

#[test]
fn a_second_server_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let first = Lock::take(&path, Path::new("/run/first.sock")).unwrap();
    let second = || Lock::take(&path, Path::new("/run/second.sock"));
    let me = format!("process {} serving /run/first.sock", process::id());
    let told = second().unwrap_err().to_string();
    assert_eq!(told, format!("{} is locked by {me}", path.display()));
    let holder = Lock::holder(&path).unwrap().unwrap();
    assert_eq!(holder.pid, Some(process::id()));
    assert_eq!(holder.socket.as_deref(), Some(Path::new("/run/first.sock")));
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{me}\n"));
    drop(first);
    // A child that another thread starts at this moment holds a copy of the lock until its execve.
    let until = Instant::now() + Duration::from_secs(300);
    while Lock::holder(&path).unwrap().is_some() {
        assert!(Instant::now() < until, "what it wrote is still there");
        thread::yield_now();
    }
    drop(second().unwrap());
    let me = format!("process {} serving /run/second.sock\n", process::id());
    assert_eq!(fs::read_to_string(&path).unwrap(), me);
}

#[test]
fn reading_a_lock_creates_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    assert_eq!(Lock::holder(&path).unwrap(), None);
    assert_eq!(Lock::holder(&dir.path().join("none/lock")).unwrap(), None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_lock_with_an_empty_file_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let other = File::create(&path).unwrap();
    other.lock().unwrap();
    let told = Lock::take(&path, Path::new("/s")).unwrap_err().to_string();
    assert!(told.ends_with("is locked by another process"), "{told}");
    assert_eq!(Lock::holder(&path).unwrap(), Some(Holder::default()));
}

#[test]
fn what_a_holder_wrote_is_not_trusted() {
    let read = |text: &str| Holder::parse(text).to_string();
    for sane in ["process 7 serving /run/with space.sock", "process 7", "another process"] {
        assert_eq!(read(sane), sane);
    }
    assert_eq!(read("process 7 serving /run/x.sock\nmore"), "process 7 serving /run/x.sock");
    assert_eq!(read("process 7 serving relative"), "process 7");
    assert_eq!(read("process 7 serving /run/\u{1b}[2J"), "process 7");
    for nothing in ["", "\n", "process", "process -1", "dear reader"] {
        assert_eq!(read(nothing), "another process", "{nothing:?}");
    }
}

#[test]
fn what_is_no_file_is_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| matches!(Lock::take(path, path), Err(LockError::Host(_)));
    assert!(refused(dir.path()));
    let link = dir.path().join("link");
    symlink("/dev/null", &link).unwrap();
    assert!(refused(&link));
    assert!(Lock::holder(&link).is_err());
}
