//! Mounts layers that the tests create, if mounting is permitted.

use std::{fs, path::PathBuf};

use super::{is_mounted, is_visible_to, mount_layers, unmount};
use crate::skips::{Lack, skip};

fn layer(root: &std::path::Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let layer = root.join(name);
    fs::create_dir_all(&layer).unwrap();
    for (file, text) in files {
        fs::write(layer.join(file), text).unwrap();
    }
    layer
}

#[test]
fn layers_are_mounted_read_only_as_one_directory() {
    let room = tempfile::tempdir().unwrap();
    let odd = layer(room.path(), "a:b,c", &[("file", "below"), ("other", "kept")]);
    let top = layer(room.path(), "top", &[("file", "above")]);
    for (layers, text) in [(vec![top.clone(), odd.clone()], "above"), (vec![odd], "below")] {
        let at = room.path().join("shown/one");
        assert!(!is_mounted(&at));
        if mount_layers(&layers, &at).is_err() {
            return skip(Lack::SysAdmin);
        }
        assert!(is_mounted(&at));
        assert_eq!(fs::read_to_string(at.join("file")).unwrap(), text);
        assert_eq!(fs::read_to_string(at.join("other")).unwrap(), "kept");
        assert!(fs::write(at.join("new"), "").is_err());
        unmount(&at).unwrap();
        assert!(!at.exists());
        unmount(&at).unwrap();
    }
}

#[test]
fn an_unmounted_directory_is_visible_to_none() {
    let room = tempfile::tempdir().unwrap();
    let socket = room.path().join("socket");
    assert!(!is_visible_to(&socket, room.path()));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(!is_visible_to(&socket, room.path()));
    assert!(is_visible_to(&socket, std::path::Path::new("/proc")));
}

#[test]
fn a_missing_layer_is_named() {
    let room = tempfile::tempdir().unwrap();
    let missing = room.path().join("gone");
    let error = mount_layers(std::slice::from_ref(&missing), &room.path().join("at")).unwrap_err();
    assert_eq!(error.path, missing);
    unmount(&room.path().join("at")).unwrap();
}
