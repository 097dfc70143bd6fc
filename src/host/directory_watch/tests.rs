//! All ways in which a directory's content can change.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use nix::sys::stat::{Mode, SFlag, mknod};
use tokio::time::timeout;

use super::*;

async fn notices(watch: &mut DirectoryWatch) -> bool {
    timeout(Duration::from_secs(300), watch.changed()).await.is_ok_and(|seen| seen.is_ok())
}

async fn is_quiet(watch: &mut DirectoryWatch) -> bool {
    while timeout(Duration::from_millis(50), watch.changed()).await.is_ok() {}
    timeout(Duration::from_millis(100), watch.changed()).await.is_err()
}

/// Creates a file without opening it. A child that another test starts would inherit the descriptor, and its
/// late end is one more event.
fn create(file: &Path) {
    mknod(file, SFlag::S_IFREG, Mode::S_IRUSR | Mode::S_IWUSR, 0).unwrap();
}

#[tokio::test]
async fn files_written_moved_and_removed_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut watch = DirectoryWatch::new(vec![dir.path().to_owned()]).unwrap();
    assert!(is_quiet(&mut watch).await);
    create(&dir.path().join("a"));
    assert!(notices(&mut watch).await);
    assert!(is_quiet(&mut watch).await);
    fs::read(dir.path().join("a")).unwrap();
    assert!(is_quiet(&mut watch).await);
    fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
    assert!(notices(&mut watch).await);
    assert!(is_quiet(&mut watch).await);
    fs::write(dir.path().join("b"), "1").unwrap();
    assert!(notices(&mut watch).await);
    fs::remove_file(dir.path().join("b")).unwrap();
    assert!(notices(&mut watch).await);
}

#[tokio::test]
async fn a_directory_that_comes_late_goes_and_returns() {
    let base = tempfile::tempdir().unwrap();
    let wanted = base.path().join("etc/cni/net.d");
    let mut watch = DirectoryWatch::new(vec![wanted.clone()]).unwrap();
    for _ in 0..3 {
        fs::create_dir_all(&wanted).unwrap();
        assert!(notices(&mut watch).await);
        assert!(is_quiet(&mut watch).await);
        create(&wanted.join("a"));
        assert!(notices(&mut watch).await);
        assert!(is_quiet(&mut watch).await);
        fs::remove_dir_all(base.path().join("etc")).unwrap();
        assert!(notices(&mut watch).await);
        assert!(is_quiet(&mut watch).await);
    }
}

#[tokio::test]
async fn neighbours_of_the_directory_do_not_matter() {
    let base = tempfile::tempdir().unwrap();
    let wanted = base.path().join("net.d");
    fs::create_dir(&wanted).unwrap();
    let mut watch = DirectoryWatch::new(vec![wanted]).unwrap();
    fs::write(base.path().join("other"), "1").unwrap();
    assert!(is_quiet(&mut watch).await);
}

#[tokio::test]
async fn a_changed_link_and_a_moved_directory_are_noticed() {
    let base = tempfile::tempdir().unwrap();
    let (one, two, link) =
        (base.path().join("one"), base.path().join("two"), base.path().join("link"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&two).unwrap();
    symlink(&one, &link).unwrap();
    let mut watch = DirectoryWatch::new(vec![link.clone(), two.clone()]).unwrap();
    symlink(&two, base.path().join("next")).unwrap();
    fs::rename(base.path().join("next"), &link).unwrap();
    assert!(notices(&mut watch).await);
    assert!(is_quiet(&mut watch).await);
    fs::write(one.join("unwatched"), "").unwrap();
    assert!(is_quiet(&mut watch).await);
    fs::write(two.join("watched"), "").unwrap();
    assert!(notices(&mut watch).await);
    fs::rename(&two, base.path().join("away")).unwrap();
    assert!(notices(&mut watch).await);
}
