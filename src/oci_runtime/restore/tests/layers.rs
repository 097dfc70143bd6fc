//! Tests of applying changed files to a root file system.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
};

use tar::{Builder, EntryType, Header};

use super::super::{archive::check_bounds, layer};
use crate::host::root_files::RootFiles;

fn header(kind: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(0o755);
    let own = fs::metadata("/proc/self").unwrap();
    header.set_uid(own.uid().into());
    header.set_gid(own.gid().into());
    header
}

fn apply(root: &Path, archive: &[u8], deleted: &[&str]) -> Result<(), String> {
    let files = RootFiles::open(root).unwrap();
    let deleted: Vec<_> = deleted.iter().map(PathBuf::from).collect();
    layer::apply(&files, std::iter::once(archive), &deleted).map_err(|error| error.to_string())
}

#[test]
fn files_are_added_replaced_and_deleted() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for directory in ["etc/old", "opaque/below", "gone"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("etc/file"), "image").unwrap();
    fs::write(root.join("opaque/file"), "image").unwrap();
    fs::write(root.join("listed"), "image").unwrap();
    let mut archive = Builder::new(Vec::new());
    archive.append_data(&mut header(EntryType::Directory, 0), "etc/", io::empty()).unwrap();
    archive.append_data(&mut header(EntryType::Regular, 3), "etc/file", &b"new"[..]).unwrap();
    archive.append_link(&mut header(EntryType::Link, 0), "etc/other", "etc/file").unwrap();
    archive.append_link(&mut header(EntryType::Symlink, 0), "etc/link", "/outside").unwrap();
    for marker in ["opaque/.wh..wh..opq", "etc/.wh.old", ".wh.gone", ".wh.never"] {
        archive.append_data(&mut header(EntryType::Regular, 0), marker, io::empty()).unwrap();
    }
    let long = format!("opaque/{}", "long".repeat(50));
    archive.append_data(&mut header(EntryType::Regular, 1), &long, &b"x"[..]).unwrap();
    let bytes = archive.into_inner().unwrap();
    // Applying the same files twice must work, because a failed restore may be repeated.
    for _ in 0..2 {
        apply(root, &bytes, &["/listed", "/not/there"]).unwrap();
    }
    assert_eq!(fs::read_to_string(root.join("etc/other")).unwrap(), "new");
    assert_eq!(fs::metadata(root.join("etc/file")).unwrap().nlink(), 2);
    assert_eq!(fs::read_link(root.join("etc/link")).unwrap(), Path::new("/outside"));
    for gone in ["etc/old", "gone", "opaque/file", "opaque/below", "listed"] {
        assert!(!root.join(gone).exists(), "{gone}");
    }
    assert!(root.join(long).exists());
}

#[test]
fn hostile_changes_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    symlink(&outside, root.join("link")).unwrap();
    for (name, kind, reason) in [
        ("../outside/kept", EntryType::Regular, "can lead out of the root"),
        ("../outside/.wh.kept", EntryType::Regular, "can lead out of the root"),
        ("link/kept", EntryType::Regular, "/link/kept"),
        ("link/.wh.kept", EntryType::Regular, "/link/.wh.kept"),
        ("link/.wh..wh..opq", EntryType::Regular, "/link/"),
        (".wh..", EntryType::Regular, "does not name one"),
        (".wh...", EntryType::Regular, "does not name one"),
        ("device", EntryType::Block, "is neither"),
        ("pipe", EntryType::Fifo, "is neither"),
        ("sparse", EntryType::GNUSparse, ""),
        ("hard", EntryType::Link, ""),
    ] {
        let mut header = header(kind, 0);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if kind == EntryType::Link {
            header.set_link_name("/link/kept").unwrap();
        }
        header.set_cksum();
        let mut archive = Builder::new(Vec::new());
        archive.append(&header, io::empty()).unwrap();
        let refused = apply(&root, &archive.into_inner().unwrap(), &[]).expect_err(name);
        assert!(refused.contains(reason), "{name}: {refused}");
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept", "{name}");
    }
    apply(&root, &[], &["/link/kept"]).unwrap_err();
    let mut archive = Builder::new(Vec::new());
    let deep = "d/".repeat(1001);
    archive.append_data(&mut header(EntryType::Regular, 0), deep, io::empty()).unwrap();
    let refused = apply(&root, &archive.into_inner().unwrap(), &[]).unwrap_err();
    assert!(refused.ends_with("is too deep"), "{refused}");
}

#[test]
fn the_size_of_changed_files_is_bounded() {
    let mut archive = Builder::new(Vec::new());
    let mut header = header(EntryType::Regular, 1000);
    archive.append_data(&mut header, "zeros", io::repeat(0).take(1000)).unwrap();
    let archive = archive.into_inner().unwrap();
    check_bounds(&archive[..], 1000).unwrap();
    let refused = check_bounds(&archive[..], 999).unwrap_err().to_string();
    assert!(refused.contains("need more space"), "{refused}");
    let mut sparse = Builder::new(Vec::new());
    sparse.append_data(&mut self::header(EntryType::GNUSparse, 0), "sparse", io::empty()).unwrap();
    let refused =
        check_bounds(&sparse.into_inner().unwrap()[..], u64::MAX).unwrap_err().to_string();
    assert!(refused.contains("sparse file"), "{refused}");
    let refused = check_bounds(&archive[..700], u64::MAX).unwrap_err().to_string();
    assert!(refused.contains("cannot be read"), "{refused}");
}

/// Readers of the archive keep names and attributes in memory, and each hard link needs a directory entry on disk.
#[test]
fn names_attributes_and_links_are_bounded() {
    let checked = |add: &dyn Fn(&mut Builder<Vec<u8>>), count: usize| {
        let mut archive = Builder::new(Vec::new());
        (0..count).for_each(|_| add(&mut archive));
        check_bounds(&archive.into_inner().unwrap()[..], u64::MAX).map_err(|it| it.to_string())
    };
    let attribute = |length: usize| {
        let value = vec![b'x'; length];
        move |archive: &mut Builder<Vec<u8>>| {
            archive.append_pax_extensions([("SCHILY.xattr.user.a", &value[..])]).unwrap();
        }
    };
    assert!(checked(&attribute(2 << 20), 1).unwrap_err().contains("too large"));
    assert!(checked(&attribute(1 << 19), 6).unwrap_err().contains("too large"));
    checked(&attribute(1 << 19), 5).unwrap();
    let link = |archive: &mut Builder<Vec<u8>>| {
        archive.append_link(&mut header(EntryType::Link, 0), "a", "b").unwrap();
    };
    assert!(checked(&link, 1001).unwrap_err().contains("too many entries"));
    checked(&link, 1000).unwrap();
}
