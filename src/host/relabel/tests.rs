//! Tests the relabelling of a directory tree with an extended attribute that needs no privileges.

use std::{fs, os::unix::fs::symlink};

use rustix::fs::lgetxattr;

use super::*;
use crate::skips::{Lack, skip};

const NAME: &str = "user.dockbridge.test";

fn value(path: &Path) -> Option<String> {
    let mut buffer = [0_u8; 64];
    let length = lgetxattr(path, NAME, &mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// A temporary directory. None if its file system has no extended attributes `user.*`.
fn folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().ok()?;
    fs::write(folder.path().join("probe"), "").ok()?;
    relabel(&folder.path().join("probe"), (NAME, "x"), &|| false).ok()?;
    if value(&folder.path().join("probe")).is_none() {
        skip(Lack::Attributes);
        return None;
    }
    Some(folder)
}

#[test]
fn everything_below_is_relabelled_and_nothing_else() {
    let Some(folder) = folder() else { return };
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir_all(inside.join("a/b")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    for file in [inside.join("a/b/file"), inside.join("file"), outside.join("file")] {
        fs::write(file, "").unwrap();
    }
    symlink(outside.join("file"), outside.join("link")).unwrap();
    // If the given path is a link, the target of the link is relabelled.
    let links = folder.path().join("way");
    symlink(&inside, &links).unwrap();
    assert_eq!(relabel(&links, (NAME, "label"), &|| false).unwrap(), 5);
    for path in ["in", "in/a", "in/a/b", "in/a/b/file", "in/file"] {
        assert_eq!(value(&folder.path().join(path)).as_deref(), Some("label"), "{path}");
    }
    assert_eq!(value(&outside), None);
    assert_eq!(value(&outside.join("file")), None);
    assert!(relabel(&folder.path().join("absent"), (NAME, "label"), &|| false).is_err());
    assert!(relabel(Path::new("/"), (NAME, "label"), &|| false).is_err());
    assert!(relabel(&inside, ("user.\0", "label"), &|| false).is_err());
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    let Some(folder) = folder() else { return };
    let deep = (0..=MAX_DEPTH + 1).fold(folder.path().join("d"), |path, _| path.join("d"));
    fs::create_dir_all(&deep).unwrap();
    let refused = relabel(&folder.path().join("d"), (NAME, "label"), &|| false).unwrap_err();
    let text = refused.source.to_string();
    assert!(text.contains("nested more than 200 levels deep"), "{text}");
}

/// Files that are not directories also count towards the limit.
#[test]
fn a_directory_with_too_many_files_is_refused() {
    let Some(folder) = folder() else { return };
    for name in ["a", "b", "c"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let mut walk = Walk { name: NAME, value: "label", seen: MAX_FILES - 2, is_over: &|| false };
    assert_eq!(walk.from(folder.path()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn a_cancelled_relabelling_stops() {
    let Some(folder) = folder() else { return };
    for name in 0..100 {
        fs::write(folder.path().join(name.to_string()), "").unwrap();
    }
    let left = std::cell::Cell::new(10);
    let is_over = || left.replace(left.get() - 1) == 0;
    let cut = relabel(folder.path(), (NAME, "label"), &is_over).unwrap_err();
    assert_eq!(cut.source.kind(), io::ErrorKind::Interrupted);
    let labelled = (0..100).filter(|name| value(&folder.path().join(name.to_string())).is_some());
    assert!(labelled.count() <= 10);
}
