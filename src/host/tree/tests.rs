//! Measures trees of several shapes, also while they change.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::Command,
};

use rustix::fs::mkdirat;

use super::*;

fn measure(root: &Path) -> Size {
    let mut walk = Walk::begin(root).unwrap();
    loop {
        if let Some(size) = walk.step(1) {
            return size;
        }
    }
}

/// The size of a tree according to the programs `du` and `find`.
fn told(root: &Path) -> Size {
    let du = Command::new("du").args(["-s", "-x", "-B1"]).arg(root).output().unwrap().stdout;
    let du = String::from_utf8(du).unwrap();
    let bytes = du.split_whitespace().next().unwrap().parse().unwrap();
    let find = Command::new("find").arg(root).args(["-xdev", "-printf", "%i\\n"]).output().unwrap();
    let inodes: HashSet<String> =
        String::from_utf8(find.stdout).unwrap().lines().map(str::to_owned).collect();
    Size { bytes, inodes: u64::try_from(inodes.len()).unwrap() }
}

#[test]
fn a_tree_is_as_large_as_others_say() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert_eq!(measure(root), told(root));
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    for (place, length) in [("one", 1), ("a/ten", 10_000), ("a/b/c/large", 3 << 20)] {
        fs::write(root.join(place), vec![7; length]).unwrap();
    }
    fs::hard_link(root.join("a/b/c/large"), root.join("again")).unwrap();
    fs::hard_link(root.join("a/b/c/large"), root.join("a/and again")).unwrap();
    symlink("/", root.join("a/everything")).unwrap();
    symlink("..", root.join("a/b/up")).unwrap();
    let size = measure(root);
    assert_eq!(size, told(root));
    assert!(size.bytes >= 3 << 20 && size.bytes < 4 << 20, "{size:?}");
    assert_eq!(size.inodes, 9);
}

#[test]
fn a_walk_can_be_cut_into_steps_of_any_length() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..50 {
        let place = dir.path().join(format!("{}/{number}", number % 7));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("file"), "text").unwrap();
    }
    let whole = Walk::begin(dir.path()).unwrap().step(10_000).unwrap();
    for length in [1, 3, 50] {
        let mut walk = Walk::begin(dir.path()).unwrap();
        let size = (0..10_000).find_map(|_| walk.step(length));
        assert_eq!(size, Some(whole), "{length}");
        assert_eq!(walk.step(1), Some(whole), "the end stays the end");
    }
}

#[test]
fn what_changes_meanwhile_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("layer"), dir.path().join("outside"));
    for place in [&root, &outside] {
        fs::create_dir_all(place.join("deep/er")).unwrap();
        fs::write(place.join("deep/er/file"), vec![1; 1 << 20]).unwrap();
    }
    let mut walk = Walk::begin(&root).unwrap();
    assert_eq!(walk.step(1), None, "it is in the first directory now");
    // Moves a directory out of the tree during the walk.
    fs::rename(root.join("deep"), dir.path().join("moved")).unwrap();
    symlink(&outside, root.join("deep")).unwrap();
    let size = (0..100).find_map(|_| walk.step(1)).unwrap();
    assert!(size.inodes <= 4, "{size:?}");
    fs::remove_dir_all(&root).unwrap();
    let error = Walk::begin(&root).unwrap_err();
    assert!(error.is_not_found());
    assert!(Walk::begin(&outside.join("deep/er/file")).is_err());
}

/// Creates nested directories below `root`, each with a file before and after the next directory in name order. Opens
/// each directory relative to its parent, because the path of the last one can be too long for one call.
fn nest(root: &Path, depth: usize) {
    let mut place = openat(CWD, root, DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..depth {
        let mode = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        for name in ["a file", "z file"] {
            openat(&place, name, mode, Mode::RUSR).unwrap();
        }
        let name = "directory ".repeat(5);
        mkdirat(&place, name.as_str(), Mode::RWXU).unwrap();
        place = openat(&place, name.as_str(), BELOW, Mode::empty()).unwrap();
    }
}

#[test]
fn depth_costs_no_descriptors_and_hides_nothing() {
    for depth in [KEPT_OPEN, KEPT_OPEN + 1, 70, 2000] {
        let dir = tempfile::tempdir().unwrap();
        nest(dir.path(), depth);
        let mut walk = Walk::begin(dir.path()).unwrap();
        let size = loop {
            let open = walk.levels.iter().filter(|level| level.directory.is_some()).count();
            assert!(open <= KEPT_OPEN + 1, "{open} are open");
            if let Some(size) = walk.step(1) {
                break size;
            }
        };
        assert_eq!(size, told(dir.path()));
        assert_eq!(size.inodes, u64::try_from(3 * depth + 1).unwrap());
        // Uses `rm`, because `remove_dir_all` would hold a descriptor open for each level.
        assert!(Command::new("rm").arg("-rf").arg(dir.path()).status().unwrap().success());
    }
}

#[test]
fn a_directory_that_moves_takes_nobody_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("layer"), dir.path().join("outside"));
    let names = vec!["d"; KEPT_OPEN + 10].join("/");
    fs::create_dir_all(root.join(&names)).unwrap();
    fs::create_dir_all(outside.join("many/more")).unwrap();
    let mut walk = Walk::begin(&root).unwrap();
    while walk.levels.len() < KEPT_OPEN + 5 {
        assert_eq!(walk.step(1), None);
    }
    let reading = vec!["d"; KEPT_OPEN + 4].join("/");
    fs::rename(root.join(reading), outside.join("moved")).unwrap();
    let size = (0..200).find_map(|_| walk.step(1)).unwrap();
    assert_eq!(size.inodes, u64::try_from(KEPT_OPEN + 11).unwrap(), "and not what is outside");
}

#[test]
fn other_file_systems_are_not_entered() {
    let (root, proc) = (Path::new("/"), Path::new("/proc"));
    assert_ne!(fs::metadata(root).unwrap().dev(), fs::metadata(proc).unwrap().dev());
    let mut walk = Walk::begin(root).unwrap();
    // Walks only the first level, because deeper levels are not part of this test.
    while walk.levels.len() == 1 && walk.step(1).is_none() {
        let entered = walk.levels.get(1).and_then(|level| level.directory.as_ref());
        if let Some(entered) = entered {
            assert_eq!(device(&facts(entered.fd().unwrap(), c"").unwrap()), walk.device);
            walk.levels.truncate(1);
        }
    }
}
