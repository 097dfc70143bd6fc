//! Tests with checkpoint archives that are complete, damaged or hostile.

use std::{
    fs,
    io::{self, Cursor, Write as _},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::super::{
    archive::{CONFIG, Contents, check_bounds},
    run::time_limit,
};

fn add(archive: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    // The test writes the path into the header itself, because the crate `tar` refuses to write hostile paths.
    let field = &mut header.as_old_mut().name;
    field[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

fn archive(entries: &[(&str, EntryType, &[u8])]) -> Cursor<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for (name, kind, content) in entries {
        add(&mut archive, name, *kind, content);
    }
    Cursor::new(archive.into_inner().unwrap())
}

const FILE: EntryType = EntryType::Regular;

#[test]
fn only_the_files_of_a_restore_are_unpacked() {
    let mut bytes = archive(&[
        ("./checkpoint/", EntryType::Directory, b""),
        ("./checkpoint/core-1.img", FILE, b"core"),
        ("/rootfs-diff.tar", FILE, b"diff"),
        ("config.dump", FILE, b"{}"),
        ("etc/mtab", EntryType::Symlink, b""),
        ("dump.log", FILE, b"log"),
    ]);
    let contents = Contents::find(&mut bytes).unwrap();
    assert_eq!(contents.size(), 10);
    // The archive has `config.dump`, but not `spec.dump`.
    assert!(contents.documents(&mut bytes).unwrap_err().to_string().contains("spec.dump"));
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("checkpoint")).unwrap();
    contents.unpack(&mut bytes, (place.path(), 10), &|| true).unwrap_err();
    fs::remove_file(place.path().join("checkpoint/core-1.img")).unwrap();
    contents.unpack(&mut bytes, (place.path(), 10), &|| false).unwrap();
    assert_eq!(fs::read(place.path().join("checkpoint/core-1.img")).unwrap(), b"core");
    assert_eq!(fs::read(place.path().join("rootfs-diff.tar")).unwrap(), b"diff");
    assert!(!place.path().join("dump.log").exists());
    // The archive has become shorter since its files were found.
    let mut cut = Cursor::new(bytes.get_ref()[..1024].to_vec());
    fs::remove_file(place.path().join("checkpoint/core-1.img")).unwrap();
    contents.unpack(&mut cut, (place.path(), 10), &|| false).unwrap_err();
}

/// containerd compresses the changed files in its container checkpoints. A few compressed bytes must not fill the disk.
#[test]
fn changed_files_are_decompressed_and_bounded() {
    let size = 20 << 20;
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&vec![0; size]).unwrap();
    let packed = packed.finish().unwrap();
    let unpacked = |content: &[u8], space| {
        let mut bytes = archive(&[("rootfs-diff.tar", FILE, content)]);
        let contents = Contents::find(&mut bytes).unwrap();
        let place = tempfile::tempdir().unwrap();
        let done = contents.unpack(&mut bytes, (place.path(), space), &|| false);
        let size = fs::metadata(place.path().join("rootfs-diff.tar")).unwrap().len();
        (done.map_err(|error| error.kind()), size, time_limit(place.path()))
    };
    let (full, whole) = (Err(io::ErrorKind::StorageFull), size as u64);
    assert_eq!(unpacked(&packed, whole), (Ok(()), whole, Duration::from_secs(5 + 1)));
    assert_eq!(unpacked(&packed, whole - 1).0, full);
    assert!(unpacked(&packed, 1000).1 < whole / 2);
    unpacked(&packed[..packed.len() / 2], whole).0.unwrap_err();
}

#[test]
fn hostile_archives_are_refused() {
    for (entries, reason) in [
        (&[("checkpoint/../../etc/cron.d/x", FILE, &b"x"[..])][..], "leaves the archive"),
        (&[("../config.dump", FILE, b"x")], "leaves the archive"),
        (&[("checkpoint/core-1.img", EntryType::Symlink, b"")], "is not a plain file"),
        (&[("checkpoint", EntryType::Symlink, b"")], "is not a plain file"),
        (&[("rootfs-diff.tar", EntryType::Link, b"")], "is not a plain file"),
        (&[("checkpoint/pages-1.img", EntryType::Block, b"")], "is not a plain file"),
        (&[("checkpoint/pages-1.img", EntryType::Fifo, b"")], "is not a plain file"),
        (&[("checkpoint/pages-1.img", EntryType::GNUSparse, b"")], "is not a plain file"),
        (&[("checkpoint/below/x", FILE, b"x")], "in an unexpected directory"),
        (&[("config.dump", FILE, b"{}"), ("./config.dump", FILE, b"[]")], "twice"),
    ] {
        let refused = Contents::find(&mut archive(entries)).unwrap_err().to_string();
        assert!(refused.contains(reason), "{entries:?}: {refused}");
    }
    // A pax header can have a size, which other readers use in place of the size in the file's header.
    for kind in [EntryType::XHeader, EntryType::XGlobalHeader] {
        let mut bytes = archive(&[("pax", kind, b"10 size=1\n"), (CONFIG, FILE, b"{}")]);
        let refused = Contents::find(&mut bytes).unwrap_err().to_string();
        assert!(refused.contains("size in a pax header"), "{refused}");
        bytes.set_position(0);
        check_bounds(&mut bytes, u64::MAX).unwrap_err();
        let mut bytes = archive(&[("pax", kind, b"9 mtime=1\n"), (CONFIG, FILE, b"{}")]);
        Contents::find(&mut bytes).unwrap();
    }
    // The header of this file has a size that is much larger than the archive.
    let mut header = Header::new_gnu();
    header.set_path("checkpoint/pages-1.img").unwrap();
    header.set_size(1 << 50);
    header.set_cksum();
    let bytes = [header.as_bytes().as_slice(), &[0; 1024]].concat();
    let refused = Contents::find(&mut Cursor::new(bytes)).unwrap_err().to_string();
    assert!(refused.contains("truncated"), "{refused}");
    let large = vec![b' '; 5 << 20];
    let mut bytes = archive(&[(CONFIG, FILE, &large)]);
    let contents = Contents::find(&mut bytes).unwrap();
    assert!(contents.documents(&mut bytes).unwrap_err().to_string().contains("too large"));
    Contents::find(&mut Cursor::new(vec![b'x'; 4096])).unwrap_err();
    assert_eq!(Contents::find(&mut Cursor::new(Vec::new())).unwrap().size(), 0);
}
