//! Files and links are opened, created, listed and removed only below the given directory.

use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, symlink},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::*;

#[test]
fn links_are_made_replaced_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (root, below) = (dir.path().join("logs/pod"), Path::new("main/0.log"));
    for target in ["/one", "/two", "/two"] {
        link(&root, below, Path::new(target)).unwrap();
        assert_eq!(fs::read_link(root.join(below)).unwrap(), PathBuf::from(target));
    }
    unlink(&root, below).unwrap();
    unlink(&root, below).unwrap();
    unlink(&root, Path::new("other/0.log")).unwrap();
    unlink(&dir.path().join("nowhere"), below).unwrap();
    assert_eq!(fs::read_dir(root.join("main")).unwrap().count(), 0);
}

#[test]
fn a_file_in_the_way_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("0.log"), "kept").unwrap();
    assert!(link(dir.path(), Path::new("0.log"), Path::new("/one")).is_err());
    unlink(dir.path(), Path::new("0.log")).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("0.log")).unwrap(), "kept");
}

#[test]
fn no_link_leads_out() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("pod"), dir.path().join("outside"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(outside.join("deep")).unwrap();
    symlink("/kept", outside.join("0.log")).unwrap();
    symlink(&outside, root.join("main")).unwrap();
    for below in ["main/0.log", "main/1.log", "main/deep/0.log", "../outside/0.log"] {
        assert!(link(&root, Path::new(below), Path::new("/one")).is_err(), "{below}");
        assert!(unlink(&root, Path::new(below)).is_err(), "{below}");
    }
    assert!(prepare(&root, Path::new("main/new/0.log")).is_err());
    assert_eq!(fs::read_link(outside.join("0.log")).unwrap(), PathBuf::from("/kept"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    assert_eq!(fs::read_dir(outside.join("deep")).unwrap().count(), 0);
}

/// `/var/log/pods` may be a link to another disk. kubelet never replaces a pod's log directory with a link, but a
/// container that mounts `/var/log` can.
#[test]
fn the_way_to_the_directory_may_have_links_but_the_directory_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let (real, shown) = (dir.path().join("real"), dir.path().join("shown"));
    fs::create_dir_all(real.join("pod/main")).unwrap();
    symlink(&real, &shown).unwrap();
    let below = Path::new("main/0.log");
    prepare(&shown.join("pod"), below).unwrap();
    link(&shown.join("pod"), below, Path::new("/one")).unwrap();
    assert!(real.join("pod/main/0.log").is_symlink());
    assert!(link(&shown.join("pod"), Path::new(""), Path::new("/one")).is_err());
    fs::create_dir_all(dir.path().join("outside/main")).unwrap();
    symlink(dir.path().join("outside"), real.join("swapped")).unwrap();
    for end in ["swapped", "swapped/", "swapped/."] {
        let root = shown.join(end);
        let error = prepare(&root, below).unwrap_err();
        assert!(error.source.to_string().contains("symbolic link"), "{error:?}");
        assert!(link(&root, below, Path::new("/one")).is_err());
        assert!(append(&root, below, 0o640).is_err());
        assert!(open(&root, below).is_err());
        assert!(unlink(&root, below).is_err());
        assert!(list(&root, Path::new("main")).is_err());
    }
    assert_eq!(fs::read_dir(dir.path().join("outside/main")).unwrap().count(), 0);
}

#[test]
fn only_a_file_or_a_link_can_have_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("pod");
    prepare(&root, Path::new("main/0.log")).unwrap();
    fs::write(root.join("main/0.log"), "").unwrap();
    symlink("/one", root.join("main/1.log")).unwrap();
    fs::create_dir(root.join("main/2.log")).unwrap();
    for (name, may) in [("0.log", true), ("1.log", true), ("2.log", false), ("0.log/3.log", false)]
    {
        assert_eq!(prepare(&root, &Path::new("main").join(name)).is_ok(), may, "{name}");
    }
    assert!(prepare(&root, &Path::new("main").join("x".repeat(300))).is_err());
}

#[test]
fn files_grow_at_their_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (root, below) = (dir.path().join("pod"), Path::new("main/0.log"));
    assert!(open(&root, below).is_err());
    assert!(list(&root, Path::new("main")).unwrap().is_empty());
    append(&root, below, 0o640).unwrap().write_all(b"one").unwrap();
    append(&root, below, 0o640).unwrap().write_all(b"two").unwrap();
    open(&root, below).unwrap().write_all(b"three").unwrap();
    assert_eq!(fs::read_to_string(root.join(below)).unwrap(), "onetwothree");
    assert_eq!(fs::metadata(root.join(below)).unwrap().mode() & 0o027, 0);
    let listed = list(&root, Path::new("main")).unwrap();
    assert_eq!(listed.iter().map(|(name, _)| name.as_os_str()).collect::<Vec<_>>(), ["0.log"]);
}

#[test]
fn a_link_gives_way_to_a_file_and_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "kept").unwrap();
    let root = dir.path().join("pod");
    fs::create_dir(&root).unwrap();
    symlink(&outside, root.join("0.log")).unwrap();
    assert!(open(&root, Path::new("0.log")).is_err());
    assert!(list(&root, Path::new("")).unwrap()[0].1.is_symlink());
    append(&root, Path::new("0.log"), 0o640).unwrap().write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
    assert!(root.join("0.log").is_file());
    fs::create_dir(root.join("1.log")).unwrap();
    assert!(append(&root, Path::new("1.log"), 0o640).is_err());
    symlink(dir.path(), root.join("away")).unwrap();
    assert!(append(&root, Path::new("away/outside"), 0o640).is_err());
    assert!(list(&root, Path::new("away")).is_err());
}

/// kubelet may rename logs at any time. A file must not be left out because its name changed while `list`
/// read other files.
#[test]
fn what_is_renamed_meanwhile_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..50 {
        fs::write(dir.path().join(format!("0.log.{number:03}")), "x").unwrap();
    }
    let (one, other) = (dir.path().join("0.log"), dir.path().join("0.log.050"));
    fs::write(&one, "x").unwrap();
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !enough.load(Ordering::SeqCst) {
                fs::rename(&one, &other).unwrap();
                thread::yield_now();
                fs::rename(&other, &one).unwrap();
            }
        });
        let listed: Vec<usize> =
            (0..500).filter_map(|_| Some(list(dir.path(), Path::new("")).ok()?.len())).collect();
        enough.store(true, Ordering::SeqCst);
        assert!(listed.iter().all(|many| *many == 51), "{listed:?}");
    });
    assert_eq!(list(dir.path(), Path::new("")).unwrap().len(), 51);
}
