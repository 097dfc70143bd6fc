//! Makes id-mapped mounts with this host's kernel, and parses mount tables.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown},
    thread,
};

use nix::mount::{MntFlags, umount2};

use super::*;
use crate::{
    host::namespaces::{IdMaps, NamespaceHolder},
    skips::{Lack, skip},
};

const FIRST: u32 = 100_000;

fn ids() -> Option<OwnedFd> {
    if !crate::host::capability::missing().is_empty() {
        skip(Lack::SysAdmin);
        return None;
    }
    let map = format!("0 {FIRST} 65536\n");
    let maps = IdMaps { uids: map.clone(), gids: map };
    Some(NamespaceHolder::make(&maps, false).unwrap().open_user().unwrap())
}

fn owner(path: &Path) -> (u32, u32) {
    let facts = fs::symlink_metadata(path).unwrap();
    (facts.uid(), facts.gid())
}

fn is_without_devices(at: &Path) -> bool {
    nix::sys::statvfs::statvfs(at).unwrap().flags().contains(nix::sys::statvfs::FsFlags::ST_NODEV)
}

#[test]
fn a_directory_and_a_file_are_shown_with_other_owners() {
    let Some(ids) = ids() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "text").unwrap();
    chown(source.join("file"), Some(7), Some(8)).unwrap();
    mount_mapped(&source, &target, ids.as_fd()).unwrap();
    assert_eq!(owner(&target), (FIRST, FIRST));
    assert_eq!(owner(&target.join("file")), (FIRST + 7, FIRST + 8));
    assert!(!is_without_devices(&target), "a volume may have some");
    unmount(&target).unwrap();
    mount_without_devices(&source, &target, Some(ids.as_fd())).unwrap();
    assert!(is_without_devices(&target));
    unmount(&target).unwrap();
    assert!(!target.exists());
    mount_mapped(&source.join("file"), &target, ids.as_fd()).unwrap();
    assert_eq!(owner(&target), (FIRST + 7, FIRST + 8));
    unmount(&target).unwrap();
    unmount(&target).unwrap();
    assert_eq!(owner(&source.join("file")), (7, 8));
}

/// Mounts the layers of an image as dockbridge does if the engine cannot mount images.
#[test]
fn layers_of_an_image_are_found_again() {
    let Some(ids) = ids() else { return };
    let folder = tempfile::tempdir().unwrap();
    let layer = |name: &str| {
        let layer = folder.path().join("base").join(name).join("diff");
        fs::create_dir_all(&layer).unwrap();
        fs::write(layer.join(name), "").unwrap();
        layer
    };
    let layers = [layer("top"), layer("low")];
    for layers in [&layers[..], &layers[..1]] {
        let (shown, target) = (folder.path().join("shown"), folder.path().join("target"));
        crate::host::overlay::mount_layers(layers, &shown).unwrap();
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let overlay = Overlay::at(&table, &shown).unwrap();
        overlay.mount_mapped(&target, ids.as_fd(), (FIRST, FIRST)).unwrap();
        assert_eq!(owner(&target.join("top")), (FIRST, FIRST));
        assert_eq!(target.join("low").exists(), layers.len() == 2);
        assert!(is_without_devices(&target));
        let written = fs::write(target.join("new"), "").map_err(|error| error.kind());
        assert_eq!(written, Err(io::ErrorKind::ReadOnlyFilesystem));
        unmount(&target).unwrap();
        crate::host::overlay::unmount(&shown).unwrap();
    }
}

/// The mounts are shared, like the mounts of a host with systemd.
#[test]
fn mounts_below_a_volume_outlive_its_copy() {
    let Some(ids) = ids() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    let (below, later) = (source.join("below"), source.join("later"));
    let tmpfs = |at: &Path| {
        fs::create_dir(at).unwrap();
        mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        mount(None::<&str>, at, None::<&str>, MsFlags::MS_SHARED, None::<&str>).unwrap();
    };
    tmpfs(&source);
    tmpfs(&below);
    fs::write(below.join("file"), "text").unwrap();
    mount_mapped(&source, &target, ids.as_fd()).unwrap();
    assert!(target.join("below/file").exists());
    tmpfs(&later);
    fs::write(later.join("file"), "text").unwrap();
    assert!(target.join("later/file").exists());
    unmount(&target).unwrap();
    let is_there = [below.join("file").exists(), later.join("file").exists()];
    umount2(&source, MntFlags::MNT_DETACH).unwrap();
    assert_eq!(is_there, [true, true]);
}

#[test]
fn an_overlay_is_written_by_the_mapped_root() {
    let Some(ids) = ids() else { return };
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    for directory in ["l", "one/diff", "two/diff", "top/diff", "top/work"] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    std::os::unix::fs::symlink("../one/diff", base.join("l/ONE")).unwrap();
    fs::write(base.join("one/diff/low"), "low").unwrap();
    let engine = folder.path().join("merged");
    fs::create_dir(&engine).unwrap();
    let options = format!(
        "lowerdir={0}/l/ONE:{0}/two/diff,upperdir={0}/top/diff,workdir={0}/top/work",
        base.display()
    );
    let kind = Some("overlay");
    mount(kind, &engine, kind, MsFlags::empty(), Some(options.as_str())).unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let overlay = Overlay::at(&table, &engine).unwrap();
    assert_eq!(overlay.base, base);
    assert_eq!(overlay.lower, [Path::new("l/ONE"), Path::new("two/diff")]);
    let target = folder.path().join("target");
    overlay.mount_mapped(&target, ids.as_fd(), (FIRST, FIRST)).unwrap();
    assert_eq!(owner(&target.join("low")), (FIRST, FIRST));
    // A file that was copied to the upper layer and a new file both belong to uid and gid 0 on disk.
    let changed = File::options().append(true).open(target.join("low"));
    io::Write::write_all(&mut changed.unwrap(), b"er").unwrap();
    write_as_mapped_root(&target.join("new"));
    assert_eq!(fs::read(base.join("top/diff/low")).unwrap(), b"lower");
    assert_eq!(owner(&base.join("top/diff/low")), (0, 0));
    assert_eq!(owner(&base.join("top/diff/new")), (0, 0));
    assert_eq!(owner(&target.join("new")), (FIRST, FIRST));
    unmount(&target).unwrap();
    umount2(&engine, MntFlags::MNT_DETACH).unwrap();
}

fn write_as_mapped_root(path: &Path) {
    let made = thread::scope(|scope| {
        let work = || {
            setfsgid(Gid::from_raw(FIRST));
            setfsuid(Uid::from_raw(FIRST));
            fs::write(path, "new")
        };
        scope.spawn(work).join().unwrap()
    });
    made.unwrap();
}

#[test]
fn overlays_are_read_as_engines_mount_them() {
    let read = |options: &str, point: &str| {
        let line = format!("30 1 0:9 / {point} rw - overlay overlay rw,{options}");
        Overlay::at(&line, Path::new(point))
    };
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    // Mount options of Docker's driver overlay2, with few and with many layers.
    let absolute = read(
        "lowerdir=/d/overlay2/l/A:/d/overlay2/l/B,upperdir=/d/overlay2/x/diff,workdir=/d/overlay2/x/work,index=off",
        "/d/overlay2/x/merged",
    );
    let wanted = Overlay {
        base: "/d/overlay2".into(),
        lower: paths(&["l/A", "l/B"]),
        upper: Some("x/diff".into()),
        options: Vec::new(),
    };
    assert_eq!(absolute, Some(wanted.clone()));
    let relative = read("lowerdir=l/A:l/B,upperdir=x/diff,workdir=x/work", "/d/overlay2/x/merged");
    assert_eq!(relative, Some(wanted));
    // Mount options of containerd's snapshots, where only the lower layers have relative paths.
    let snapshots = read(
        "lowerdir=12/fs:11/fs,upperdir=/c/snapshots/13/fs,workdir=/c/snapshots/13/work,metacopy=on",
        "/d/rootfs/overlayfs/x",
    );
    let wanted = Overlay {
        base: "/c/snapshots".into(),
        lower: paths(&["12/fs", "11/fs"]),
        upper: Some("13/fs".into()),
        options: vec!["metacopy=on".to_owned()],
    };
    assert_eq!(snapshots, Some(wanted));
    let new_calls = read("lowerdir+=/c/s/2/fs,lowerdir+=/c/s/1/fs,upperdir=/c/s/3/fs", "/m");
    assert_eq!(new_calls.unwrap().lower, paths(&["2/fs", "1/fs"]));
    // An SELinux context can contain commas.
    let context = "context=\"system_u:object_r:container_file_t:s0:c1,c2\"";
    let labelled = read(&format!("{context},lowerdir=/d/l/A,upperdir=/d/x/diff"), "/d/x/merged");
    assert_eq!(labelled.unwrap().options, [context]);
    for strange in ["lowerdir=/a/b/c:/other/b/c,upperdir=/a/x/diff", "lowerdir+=/x", ""] {
        assert_eq!(read(strange, "/d/overlay2/x/merged"), None, "{strange}");
    }
    let bound = "30 1 0:9 /sub /m rw - overlay overlay rw,lowerdir=/d/l/A,upperdir=/d/x/diff";
    assert_eq!(Overlay::at(bound, Path::new("/m")), None, "a directory of an overlay");
    let part = |table: &str, path: &str| Some(Overlay::around(table, Path::new(path))?.1);
    assert_eq!(part(bound, "/m"), Some("sub".into()));
    // `around` refuses a path below a writable overlay.
    assert_eq!(part(bound, "/m/below"), None);
    let image = "30 1 0:9 / /i rw - overlay dockbridge ro,lowerdir=/d/a/A:/d/b/B";
    assert_eq!(part(image, "/i/a/b"), Some("a/b".into()));
    assert_eq!(part(&format!("{image}\n31 30 8:1 / /i/a rw - ext4 /dev/sda rw"), "/i/a/b"), None);
    assert_eq!(Overlay::at("30 1 8:1 / /m rw - ext4 /dev/sda rw", Path::new("/m")), None);
}
