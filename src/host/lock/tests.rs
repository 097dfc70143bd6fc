//! Who comes second is told who was first.

use std::fs;

use super::*;

#[test]
fn who_comes_second_is_told_who_was_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let first = Lock::take(&path).unwrap();
    let told = Lock::take(&path).unwrap_err().to_string();
    assert_eq!(told, format!("{} is locked by process {}", path.display(), process::id()));
    drop(first);
    drop(Lock::take(&path).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("process {}\n", process::id()));
}

#[test]
fn a_holder_that_says_nothing_still_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let other = File::create(&path).unwrap();
    other.lock().unwrap();
    let told = Lock::take(&path).unwrap_err().to_string();
    assert!(told.ends_with("is locked by another process"), "{told}");
}

#[test]
fn what_is_no_file_is_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Lock::take(dir.path()), Err(LockError::Host(_))));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    assert!(matches!(Lock::take(&link), Err(LockError::Host(_))));
}
