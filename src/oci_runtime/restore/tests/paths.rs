//! Tests of the checks of paths, open files and memory areas in CRIU's images.

use prost::Message;
use serde_json::json;

use super::{
    super::{
        config::Config,
        image::{Image, decoded, merged},
        messages::{
            Area, FileHandle, GhostFile, Memory, Mount, OpenFile, RegularFile, Remade, Terminal,
            UnixSocket, Watch, Watches,
        },
        paths::Located,
        tmpfs,
    },
    change, change_file, fit, fixture,
};

/// Numbers of open files in the fixture: `/data/count`, `/bin/sh` and `/dev/null`.
const COUNT: u32 = 5;
const PROGRAM: u32 = 1;
const DEVICE: u32 = 2;
const ROOT: i32 = 803;
const DEV: i32 = 811;
const DATA: i32 = 856;

fn regular(id: u32, path: &str, mount: i32) -> RegularFile {
    RegularFile { id, flags: 0, path: path.to_owned(), mount: Some(mount) }
}

/// Changes an open file in the fixture's images, adds the deleted files `remade`, and fits the images.
fn with(id: u32, file: &OpenFile, remade: &[Remade]) -> Result<Vec<Located>, String> {
    let (mut images, config) = fixture();
    change_file(&mut images, id, file);
    let mut bytes = Image::new(0, &GhostFile { mode: 0o100_644 }).bytes();
    bytes.extend(b"content");
    images.contents.insert("ghost-file-1.img".to_owned(), bytes);
    if let [first, more @ ..] = remade {
        let mut image = Image::new(0, first);
        image.entries.extend(more.iter().map(Message::encode_to_vec));
        images.contents.insert("remap-fpath.img".to_owned(), image.bytes());
    }
    fit(&mut images, &config)
}

fn with_path(id: u32, path: &str, mount: i32) -> Result<Vec<Located>, String> {
    with(
        id,
        &OpenFile { kind: 1, id, regular: Some(regular(id, path, mount)), ..OpenFile::default() },
        &[],
    )
}

#[test]
fn files_are_looked_up_in_their_mounts() {
    let located = fit(&mut fixture().0, &fixture().1).unwrap();
    let at = |volume: Option<&str>, path: &str| Located {
        volume: volume.map(str::to_owned),
        path: path.to_owned(),
    };
    for wanted in [
        at(None, "bin/sh"),
        at(None, ""),
        at(Some("/srv/data"), "count"),
        // The paths `etc/hosts` and `proc` are mount points.
        at(None, "etc/hosts"),
        at(None, "proc"),
    ] {
        assert!(located.contains(&wanted), "{wanted:?} is not in {located:?}");
    }
    assert!(!located.iter().any(|it| it.path.contains("null") || it.path.contains("keys")));
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    for (path, mount, reason) in [
        ("/proc/self/exe", 808, "a file of the kernel"),
        ("/proc/1/root/etc/passwd", 808, "a file of the kernel"),
        ("/proc", 808, "a file of the kernel"),
        ("/proc/sys/kernel/core_pattern", 713, "a file of the kernel"),
        ("/sys/fs/cgroup/memory/tasks", 845, "a file of the kernel"),
        ("/dev/mqueue/x", 855, "a file of the kernel"),
        ("/sys/firmware/x", 719, "a file of the kernel"),
        ("/data/../proc/self/exe", ROOT, "not a normalized absolute path"),
        ("/data/./count", DATA, "not a normalized absolute path"),
        ("//data/count", DATA, "not a normalized absolute path"),
        ("data/count", DATA, "not a normalized absolute path"),
        ("", ROOT, "not a normalized absolute path"),
        ("/data/count\0", DATA, "not a normalized absolute path"),
        ("/data/count", ROOT, "another mount hides"),
        ("/proc/self/exe", ROOT, "another mount hides"),
        // The OCI runtime makes `/dev/fd` and `/dev/stdin` as links.
        ("/dev/fd/5", DEV, "a link in its path"),
        ("/dev/stdin", DEV, "a link in its path"),
    ] {
        let refused = with_path(COUNT, path, mount).expect_err(path);
        assert!(refused.contains(reason), "{path}: {refused}");
    }
    for (path, mount) in [
        ("/", ROOT),
        ("/etc/passwd", ROOT),
        ("/etc/hosts", 865),
        ("/data/below/count", DATA),
        ("/dev/shm/queue", 857),
        ("/dev/null", DEV),
        ("/dev/pts/0", 839),
        ("/proc/keys", 717),
    ] {
        with_path(COUNT, path, mount).expect(path);
    }
}

#[test]
fn links_in_a_tmpfs_are_found_under_each_name() {
    let with_entry = |kind: tar::EntryType, name: &str, extension: Option<(&str, &str)>| {
        let (mut images, config) = fixture();
        let mut archive =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
        if let Some((key, value)) = extension {
            archive.append_pax_extensions([(key, value.as_bytes())]).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_link_name("x").unwrap();
        archive.append_data(&mut header, name, std::io::empty()).unwrap();
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        images.contents.insert("tmpfs-dev-198.tar.gz.img".to_owned(), bytes);
        change_file(
            &mut images,
            COUNT,
            &OpenFile {
                kind: 1,
                regular: Some(regular(COUNT, "/dev/a/b", DEV)),
                ..OpenFile::default()
            },
        );
        fit(&mut images, &config)
    };
    use tar::EntryType;
    for (kind, name, extension, is_refused) in [
        (EntryType::Symlink, "./a", None, true),
        (EntryType::Symlink, "a/b", None, true),
        (EntryType::Link, "a", None, true),
        (EntryType::Symlink, "other", Some(("path", "a")), true),
        (EntryType::Symlink, "other", Some(("GNU.sparse.name", "a")), true),
        (EntryType::XGlobalHeader, "other", None, true),
        (EntryType::GNUSparse, "other", None, true),
        (EntryType::Directory, "other", Some(("size", "0")), true),
        (EntryType::Symlink, "other", Some(("path", "a\0b")), true),
        (EntryType::Symlink, "other", Some(("linkpath", "a\0b")), true),
        (EntryType::Symlink, "other", Some(("mtime", "1")), false),
        (EntryType::Symlink, "other", None, false),
        (EntryType::Symlink, "a/c", None, false),
        (EntryType::Directory, "a", None, false),
    ] {
        let refused = with_entry(kind, name, extension);
        assert_eq!(refused.is_err(), is_refused, "{kind:?} {name} {extension:?}");
    }
}

#[test]
fn entries_of_a_tmpfs_that_programs_read_in_different_ways_are_refused() {
    use tar::EntryType;
    type Change = fn(&mut [u8; 512]);
    let kinds = [EntryType::Regular, EntryType::Directory, EntryType::Link, EntryType::Symlink];
    let with = |kind: EntryType, content: usize, change: Change, after: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_path("a").unwrap();
        header.set_size(content as u64);
        change(header.as_mut_bytes());
        header.set_cksum();
        let bytes = [header.as_bytes(), &vec![b'x'; content][..], &[0; 1024], after].concat();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        std::io::Write::write_all(&mut packed, &bytes).unwrap();
        tmpfs::check(&packed.finish().unwrap(), &Config::default())
    };
    for kind in kinds {
        assert!(with(kind, 0, |_| (), &[0; 9000]).is_ok(), "{kind:?}");
        assert_eq!(with(kind, 512, |_| (), b"").is_ok(), kind == EntryType::Regular, "{kind:?}");
    }
    let changes: [Change; 4] = [
        |it| it[124] = b'+',
        |it| it[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        |it| it[263..265].copy_from_slice(b"99"),
        |it| it[1] = b'/',
    ];
    for change in changes {
        with(EntryType::Regular, 0, change, b"").unwrap_err();
    }
    assert!(with(EntryType::Regular, 0, |_| (), b"x").unwrap_err().contains("after the end"));
}

#[test]
fn flags_and_permissions_are_not_those_of_an_open() {
    for (flags, is_refused) in
        [(0o2, false), (0o20_200_000, false), (0o101, true), (0o1001, true), (0o201, true)]
    {
        let file = RegularFile { flags, ..regular(COUNT, "/data/count", DATA) };
        let file = OpenFile { kind: 1, id: COUNT, regular: Some(file), ..OpenFile::default() };
        assert_eq!(with(COUNT, &file, &[]).is_err(), is_refused, "{flags:o}");
    }
    // CRIU changes the permissions of a terminal's file, so the file must be a terminal.
    let terminal = |id, file, flags| {
        let terminal = Some(Terminal { id, flags, file });
        with(3, &OpenFile { kind: 11, id: 3, terminal, ..OpenFile::default() }, &[])
    };
    for (id, file) in [(COUNT, None), (99, Some(COUNT)), (DEVICE, Some(PROGRAM))] {
        let refused = terminal(id, file, 0).unwrap_err();
        assert!(refused.contains("is open as a terminal"), "{refused}");
    }
    let regular = Some(regular(COUNT, "/dev/null", DEV));
    let both = Some(Terminal { id: COUNT, flags: 0o1002, file: None });
    let both = OpenFile { kind: 11, id: COUNT, regular, terminal: both, ..OpenFile::default() };
    with(COUNT, &both, &[]).unwrap_err();
    terminal(COUNT, Some(DEVICE), 2).unwrap();
    terminal(DEVICE, None, 0o1002).unwrap_err();
}

#[test]
fn deleted_files_are_only_made_where_no_link_can_be() {
    let ghost = |path: &str, mount| {
        let regular = Some(regular(COUNT, path, mount));
        let file = OpenFile { kind: 1, id: COUNT, regular, ..OpenFile::default() };
        with(COUNT, &file, &[Remade { file: COUNT, from: 1, kind: Some(1) }])
    };
    for (path, mount) in
        [("/data/gone", DATA), ("/dev/shm/gone", 857), ("/dev/gone", DEV), ("/var/lib/gone", ROOT)]
    {
        ghost(path, mount).expect(path);
    }
    for (path, mount) in
        [("/data/below/gone", DATA), ("/dev/below/gone", DEV), ("/data", DATA), ("/etc/hosts", 865)]
    {
        let refused = ghost(path, mount).expect_err(path);
        assert!(refused.contains("not in the top directory of its mount"), "{path}: {refused}");
    }
    for (kind, from, is_refused) in [
        // CRIU removes the file `from` of a linked file (kind 0 or none).
        (None, 1, true),
        (Some(0), 1, true),
        (None, 99, false),
        (Some(2), 1, true),
        (Some(9), 1, true),
        (Some(0), COUNT, true),
    ] {
        let regular = Some(regular(COUNT, "/data/below/x", DATA));
        let file = OpenFile { kind: 1, id: COUNT, regular, ..OpenFile::default() };
        let remade = Remade { file: 6, from, kind };
        assert_eq!(with(COUNT, &file, &[remade]).is_err(), is_refused, "{kind:?} {from}");
    }
    for (path, is_refused) in [
        ("/data/link_remap.5", false),
        ("/data/link_remap.", true),
        ("/data/link_remap.x", true),
        ("/data/count", true),
    ] {
        let regular = Some(regular(COUNT, path, DATA));
        let file = OpenFile { kind: 1, id: COUNT, regular, ..OpenFile::default() };
        let remade = Remade { file: 6, from: COUNT, kind: Some(0) };
        assert_eq!(with(COUNT, &file, &[remade]).is_err(), is_refused, "{path}");
    }
    // CRIU would make a read-only mount writable, to create the deleted file in it.
    let (mut images, mut config) = fixture();
    config["mounts"][6]["options"] = json!(["rbind", "ro"]);
    change(&mut images, "mountpoints-13.img", &|entry| {
        let mount: Mount = decoded(entry).unwrap();
        let flags = if mount.path == "/data" { mount.flags | 1 } else { mount.flags };
        merged(entry, &Mount { flags, ..mount }).unwrap()
    });
    fit(&mut images.clone(), &config).unwrap();
    let remade = Remade { file: COUNT, from: 1, kind: Some(1) };
    images.contents.insert("remap-fpath.img".to_owned(), Image::new(0, &remade).bytes());
    assert!(fit(&mut images, &config).unwrap_err().contains("read-only"));
    for (mode, is_refused) in [
        (0o100_644, false),
        (0o040_755, false),
        (0o010_600, false),
        (0o060_600, true),
        (0o020_600, true),
        (0o120_777, true),
        (0, true),
    ] {
        let (mut images, config) = fixture();
        let image = Image::new(0, &GhostFile { mode }).bytes();
        images.contents.insert("ghost-file-1.img".to_owned(), image);
        assert_eq!(fit(&mut images, &config).is_err(), is_refused, "{mode:o}");
    }
}

#[test]
fn the_first_pages_are_not_mapped() {
    let with_area = |start, flags, capabilities: &[&str]| {
        let (mut images, mut config) = fixture();
        let memory = Memory { areas: vec![Area { start, flags }] };
        images.contents.insert("mm-7.img".to_owned(), Image::new(0, &memory).bytes());
        let bounding = config["process"]["capabilities"]["bounding"].as_array_mut().unwrap();
        bounding.extend(capabilities.iter().map(|name| json!(name)));
        fit(&mut images, &config)
    };
    for start in [0, 4096, (1 << 16) - 1] {
        assert!(with_area(start, None, &[]).unwrap_err().contains("memory at the low address"));
        with_area(start, None, &["CAP_SYS_RAWIO"]).unwrap();
    }
    with_area(1 << 16, Some(2), &[]).unwrap();
    with_area(u64::MAX, Some(0o101), &[]).unwrap_err();
}

#[test]
fn sockets_and_watches_have_paths_of_the_container() {
    let socket = |name: &[u8], directory: Option<&str>| {
        let directory = directory.map(str::to_owned);
        let unix_socket = Some(UnixSocket { name: name.to_vec(), directory, options: None });
        with(3, &OpenFile { kind: 5, id: 3, unix_socket, ..OpenFile::default() }, &[])
    };
    for (name, directory) in [
        (&b"/run/x.sock\0"[..], None),
        (b"", None),
        (b"\0abstract/../x", None),
        (b"x.sock", Some("/data")),
        (b"/data/x.sock", Some("/")),
    ] {
        socket(name, directory).unwrap();
    }
    for (name, directory) in [
        (&b"/proc/self/fd/7/x.sock\0"[..], None),
        (b"/data/../x", None),
        (b"x.sock", None),
        (b"../x.sock", Some("/data")),
        (b"x.sock", Some("/proc/1/cwd")),
        (b"/data/x", Some("/proc/1/cwd")),
        (b"/\xff", None),
        (b"/data/x\0y", None),
        (b"\0abstract", Some("/proc/1/cwd")),
    ] {
        assert!(socket(name, directory).is_err(), "{name:?} {directory:?}");
    }
    let watch = |path: &str| {
        let handle = Some(FileHandle { path: Some(path.to_owned()) });
        let watches = Some(Watches { all: vec![Watch { handle }] });
        with(3, &OpenFile { kind: 8, id: 3, watches, ..OpenFile::default() }, &[])
    };
    watch("/data").unwrap();
    watch("/proc/self/root").unwrap_err();
}
