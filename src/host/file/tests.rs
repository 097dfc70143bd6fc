//! Checks that a file is replaced completely or not at all, and that no draft is left.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

#[test]
fn replaces_whole_and_leaves_no_draft() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("facts.json");
    for (text, durability) in [("one", Durability::Synced), ("two", Durability::Written)] {
        replace(&path, text.as_bytes(), durability).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_failed_replacement_keeps_the_old_and_no_draft() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("taken");
    fs::create_dir(&path).unwrap();
    let error = replace(&path, b"x", Durability::Written).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot replace {}", path.display()));
    assert!(path.is_dir());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_pods_read_is_readable_by_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resolv.conf");
    replace_with_mode(0o644, &path, b"nameserver ::1\n", Durability::Written).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn an_absent_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such/file");
    assert!(replace(&path, b"", Durability::Synced).unwrap_err().is_not_found());
}

#[test]
fn removing_what_is_not_there_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    assert!(!remove_if_present(&path, Durability::Synced).unwrap());
    fs::write(&path, "x").unwrap();
    assert!(remove_if_present(&path, Durability::Synced).unwrap());
    assert!(!remove_if_present(&path.join("below"), Durability::Written).unwrap());
}

#[test]
fn reading_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    assert_eq!(read_if_present(&path, 3).unwrap(), None);
    fs::write(&path, "abc").unwrap();
    assert_eq!(read_if_present(&path, 3).unwrap().unwrap(), b"abc");
    assert!(read_if_present(&path, 2).is_err());
    assert!(read_if_present(dir.path(), 2).is_err());
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for odd in [&fifo, std::path::Path::new("/dev/zero")] {
        let refused = read_if_present(odd, 2).unwrap_err();
        assert_eq!(refused.source.to_string(), "not a regular file", "{}", odd.display());
    }
    assert_eq!(read_text(&path, 3).unwrap(), "abc");
    assert_eq!(read_text(&dir.path().join("y"), 3).unwrap_err().kind(), io::ErrorKind::NotFound);
    fs::write(&path, [0xff]).unwrap();
    assert_eq!(read_text(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn many_writers_leave_one_whole_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared");
    let texts: Vec<String> = (0..8).map(|n| n.to_string().repeat(4096)).collect();
    std::thread::scope(|scope| {
        for text in &texts {
            scope.spawn(|| {
                for _ in 0..20 {
                    replace(&path, text.as_bytes(), Durability::Written).unwrap();
                }
            });
        }
    });
    assert!(texts.contains(&fs::read_to_string(&path).unwrap()));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_file_of_somebody_else_keeps_mode_and_link() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    replace_in_place(&link, b"new").unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    let made = dir.path().join("etc/docker/daemon.json");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("etc/docker/daemon.json", &link).unwrap();
    replace_in_place(&link, b"{}").unwrap();
    assert!(link.is_symlink(), "one that leads to nothing yet");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}
