//! Tests new namespaces: their id maps, the child process that holds them, and pins that outlive the child process.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use super::*;
use crate::skips::{Lack, skip};

fn maps() -> IdMaps {
    IdMaps { uids: "0 100000 65536\n".to_owned(), gids: "0 200000 65536\n".to_owned() }
}

fn may_mount() -> bool {
    let may = nix::unistd::geteuid().is_root() && crate::host::capability::missing().is_empty();
    if !may {
        skip(Lack::SysAdmin);
    }
    may
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn a_user_namespace_has_its_ids() {
    if !may_mount() {
        return;
    }
    let holder = NamespaceHolder::make(&maps(), false).unwrap();
    let read = fs::read_to_string(holder.path("uid_map")).unwrap();
    assert_eq!(read.split_whitespace().collect::<Vec<_>>(), ["0", "100000", "65536"]);
    let read = fs::read_to_string(holder.path("gid_map")).unwrap();
    assert_eq!(read.split_whitespace().collect::<Vec<_>>(), ["0", "200000", "65536"]);
    assert_ne!(inode(&holder.path("ns/user")), inode(Path::new("/proc/self/ns/user")));
    assert_eq!(inode(&holder.path("ns/net")), inode(Path::new("/proc/self/ns/net")));
}

#[test]
fn the_child_has_no_files_of_dockbridge() {
    if !may_mount() {
        return;
    }
    let _file = tempfile::tempfile().unwrap();
    let holder = NamespaceHolder::make(&maps(), true).unwrap();
    let open = fs::read_dir(holder.path("fd")).unwrap().map(|fd| fd.unwrap().file_name());
    let above = open.filter(|fd| fd.to_str().unwrap().parse::<u32>().unwrap() > 2);
    assert_eq!(above.count(), 1, "its end of the pipe");
}

#[test]
fn pins_keep_the_namespaces_of_a_child_that_ended() {
    if !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (user, net) = (folder.path().join("user"), folder.path().join("net"));
    let holder = NamespaceHolder::make(&maps(), true).unwrap();
    let process = holder.path("");
    let (user_inode, net_inode) = (inode(&holder.path("ns/user")), inode(&holder.path("ns/net")));
    holder.pin_user(&user).unwrap();
    holder.pin_network(&net).unwrap();
    drop(holder);
    assert!(!process.exists(), "the child ended");
    assert_eq!((inode(&user), inode(&net)), (user_inode, net_inode));
    netns::raise_loopback(&net).unwrap();
    netns::unpin(&user).unwrap();
    netns::unpin(&net).unwrap();
}

#[test]
fn a_map_that_is_not_valid_leaves_nothing() {
    if !may_mount() {
        return;
    }
    let wrong = IdMaps { uids: "0 1\n".to_owned(), ..maps() };
    let refused = NamespaceHolder::make(&wrong, true).unwrap_err();
    assert!(refused.to_string().contains("uid_map"), "{refused}");
}

#[test]
fn many_at_once_do_not_wait_for_each_other() {
    if !may_mount() {
        return;
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    NamespaceHolder::make(&maps(), true).unwrap();
                }
            });
        }
    });
}
