//! Projects on a file system of our own, where the machine lets us make and mount one.

use std::{fs, path::PathBuf, process::Command, thread};

use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::skips::{Lack, skip};

#[test]
fn a_project_belongs_to_one_layer() {
    assert_eq!(own_project(7, 7, None), Some(7));
    assert_eq!(own_project(7, 7, Some(6)), Some(7));
    assert_eq!(own_project(7, 7, Some(7)), None, "whole storage is one project");
    assert_eq!(own_project(7, 6, None), None, "one below the layer");
}

#[test]
fn half_an_answer_is_none() {
    // SAFETY: numbers only.
    #[allow(unsafe_code, reason = "has no default")]
    let blank = unsafe { MaybeUninit::<libc::dqblk>::zeroed().assume_init() };
    let counts = libc::dqblk { dqb_curspace: 5, dqb_curinodes: 6, ..blank };
    for (valid, told) in [
        (0, None),
        (libc::QIF_SPACE, None),
        (libc::QIF_USAGE, Some(Size { bytes: 5, inodes: 6 })),
        (libc::QIF_ALL, Some(Size { bytes: 5, inodes: 6 })),
    ] {
        assert_eq!(size(&libc::dqblk { dqb_valid: valid, ..counts }), told, "{valid}");
    }
}

#[test]
fn no_usage_without_a_project() {
    let room = tempfile::tempdir().unwrap();
    let place = room.path().join("layer/diff");
    fs::create_dir_all(&place).unwrap();
    for place in [&place, &room.path().join("absent"), Path::new("/"), Path::new("/proc")] {
        assert_eq!(used(place), None, "{}", place.display());
    }
}

#[test]
fn a_layer_is_as_large_as_others_say() {
    for make in ["mke2fs -q -t ext4 -O project,quota", "mkfs.xfs -q"] {
        // Mounts are this thread's alone, and gone with it.
        let seen = thread::spawn(move || on_our_own(make)).join().unwrap();
        match seen {
            Ok(()) => println!("looked at: {make}"),
            Err(why) => {
                println!("{make}: {why}");
                skip(Lack::Disk(make));
            }
        }
    }
}

fn on_our_own(make: &str) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|why| format!("no mounts of our own: {why}"))?;
    run("mount --make-rprivate /")?;
    let room = tempfile::tempdir().unwrap();
    let (image, root) = (room.path().join("image"), room.path().join("disk"));
    fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
    fs::create_dir(&root).unwrap();
    run(&format!("{make} {}", image.display()))?;
    run(&format!("mount -o loop,prjquota {} {}", image.display(), root.display()))?;
    let (layer, stranger) = (layer(&root, 70), layer(&root, 71));
    run(&format!("sync -f {}", root.display()))?;
    for (layer, inodes) in [(&layer, 6), (&stranger, 6)] {
        let told = used(&layer.join("diff")).expect("counted");
        let du = run(&format!("du -s -B1 {}", layer.display()))?;
        assert_eq!(told.bytes.to_string(), du.split_whitespace().next().unwrap());
        assert!(told.bytes >= 3 << 20, "{told:?}");
        assert_eq!(told.inodes, inodes);
    }
    for name in ["large", "again"] {
        fs::remove_file(layer.join("diff").join(name)).unwrap();
    }
    // XFS frees in the background what was removed.
    let freed = |now: Size| now.bytes < 1 << 20 && now.inodes == 5;
    for _ in 0..1000 {
        if !freed(used(&layer.join("diff")).unwrap()) {
            run(&format!("sync -f {}", root.display()))?;
        }
    }
    let less = used(&layer.join("diff")).unwrap();
    assert!(freed(less), "{less:?}");
    assert_eq!(used(&root.join("70")), None, "what is around it is none");
    run(&format!("chattr +P -p 70 {}", root.display()))?;
    assert_eq!(used(&layer.join("diff")), None, "whole storage is one project");
    assert!(used(&stranger.join("diff")).is_some());
    run(&format!("umount {}", root.display())).map(drop)
}

/// A layer with 3 MiB in two files, one of them with two names, as Docker lays it out.
fn layer(root: &Path, project: u32) -> PathBuf {
    let layer = root.join(project.to_string());
    fs::create_dir(&layer).unwrap();
    run(&format!("chattr +P -p {project} {}", layer.display())).unwrap();
    fs::create_dir_all(layer.join("diff/folder")).unwrap();
    fs::create_dir(layer.join("work")).unwrap();
    fs::write(layer.join("diff/large"), vec![7; 3 << 20]).unwrap();
    fs::write(layer.join("diff/folder/small"), "text").unwrap();
    fs::hard_link(layer.join("diff/large"), layer.join("diff/again")).unwrap();
    layer
}

fn run(line: &str) -> Result<String, String> {
    let mut words = line.split(' ');
    let done = Command::new(words.next().unwrap()).args(words).output();
    let done = done.map_err(|why| format!("{line}: {why}"))?;
    match done.status.success() {
        true => Ok(String::from_utf8(done.stdout).unwrap()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&done.stderr).trim())),
    }
}
