//! Tests `dockbridge-runtime` as a program with a fake runc.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

/// Since 29.7, dockerd has a umask of 0. If dockerd starts containerd, containerd and the shims inherit this umask.
/// Everybody could then change files that a command of `exec` creates. `dockbridge-runtime` replaces only the umask 0,
/// and keeps a site's own umask.
#[test]
fn a_command_never_has_an_inherited_umask_of_zero() {
    let room = tempfile::tempdir().unwrap();
    let (lower, seen) = (room.path().join("lower"), room.path().join("seen"));
    fs::write(&lower, format!("#!/bin/sh\numask >{}\n", seen.display())).unwrap();
    fs::set_permissions(&lower, Permissions::from_mode(0o755)).unwrap();
    for (inherited, own) in [("0", "0022"), ("022", "0022"), ("077", "0077"), ("002", "0002")] {
        let mut runtime = Command::new("sh");
        runtime.args(["-c", "umask $0 && exec \"$@\"", inherited]);
        runtime.args([env!("CARGO_BIN_EXE_dockbridge"), "runtime", "--dockbridge-runtime"]);
        runtime.arg(&lower).args(["exec", &"a".repeat(64)]);
        assert!(runtime.status().unwrap().success(), "{inherited}");
        assert_eq!(fs::read_to_string(&seen).unwrap().trim_end(), own, "{inherited}");
    }
}
