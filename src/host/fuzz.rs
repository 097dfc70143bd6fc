//! Lets `make fuzz` call the parsers of the kernel's tables and of lock files.

use std::path::Path;

use super::{
    apparmor,
    cgroup::{self, limits},
    lock::Holder,
    mounts::{self, MountInfo},
    process, processes,
};

/// Parses the bytes as tables of the kernel, as a lock file, and as the output of a program.
pub(crate) fn tables(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for place in ["/", "/var/lib/docker", "/sys/fs/cgroup/memory"] {
        let holding = mounts::mount_of(&text, Path::new(place));
        assert!(holding.is_none_or(|mount| Path::new(place).starts_with(mount.point)));
    }
    for line in text.lines() {
        if let Some(entry) = MountInfo::read(line) {
            assert!(entry.point.as_os_str().len() <= line.len());
        }
        let _ = cgroup::Mount::read(line);
        let _ = cgroup::membership(line, "docker-");
        let _ = limits::number(line);
        let _ = apparmor::names(line).count();
    }
    if let Some(process) = processes::process(1, &text) {
        assert_eq!(process.who.pid, 1);
    }
    let holder = Holder::parse(&text);
    if holder.pid.is_some() {
        assert_eq!(Holder::parse(&holder.to_string()), holder, "a holder is read as it is printed");
    }
    assert!(!process::readable(bytes).contains(char::is_control));
}
