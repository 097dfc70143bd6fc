//! Reads a process table of test files, and the real process table.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, chown, symlink},
    path::Path,
    time::Duration,
};

use super::{Identity, Process, Processes, pids_of};

fn write(root: &Path, pid: u32, stat: &str) {
    let place = root.join(pid.to_string());
    fs::create_dir_all(place.join("fd")).unwrap();
    fs::write(place.join("stat"), stat).unwrap();
}

/// A line of `stat` in the format of proc(5).
fn stat(pid: u32, name: &str, state: &str, started: u64) -> String {
    let rest = "0 ".repeat(30);
    format!("{pid} ({name}) {state} 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {started} {rest}\n")
}

#[test]
fn a_name_cannot_forge_fields() {
    let root = tempfile::tempdir().unwrap();
    let table = Processes::new(root.path());
    for name in ["sh", "a b", "x) Z 1 1 1 1", "((", ")"] {
        write(root.path(), 42, &stat(42, name, "S", 777));
        let who = Identity { pid: 42, started: 777 };
        let wanted = Process { who, parent: 7, group: 8, session: 9, is_alive: true };
        assert_eq!(table.get(42), Some(wanted), "{name}");
    }
}

#[test]
fn one_that_has_ended_is_listed_as_dead_and_garbage_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let table = Processes::new(root.path());
    write(root.path(), 1, &stat(1, "a", "Z", 5));
    write(root.path(), 2, "garbage");
    write(root.path(), 3, "3 (cut) S 1");
    fs::create_dir(root.path().join("self")).unwrap();
    let all = table.all().unwrap();
    assert_eq!(all.len(), 1);
    assert!(!all[0].is_alive);
    assert_eq!(table.get(4), None);
}

#[test]
fn a_service_is_roots_and_has_the_mounts_of_the_host() {
    let root = tempfile::tempdir().unwrap();
    let table = Processes::new(root.path());
    let mounts = |name: &str, target: &str| {
        fs::create_dir_all(root.path().join(name).join("ns")).unwrap();
        symlink(target, root.path().join(name).join("ns/mnt")).unwrap();
    };
    mounts("self", "mnt:[1]");
    for (pid, name, target) in
        [(5, "kubelet", "mnt:[1]"), (6, "kubelet", "mnt:[2]"), (7, "sh", "mnt:[1]")]
    {
        write(root.path(), pid, &stat(pid, name, "S", 5));
        fs::write(root.path().join(format!("{pid}/comm")), format!("{name}\n")).unwrap();
        mounts(&pid.to_string(), target);
    }
    let own = fs::metadata(root.path()).unwrap().uid() == 0;
    assert_eq!(table.find_services("kubelet"), if own { vec![5] } else { vec![] });
    if own {
        chown(root.path().join("5"), Some(1), None).unwrap();
        assert_eq!(table.find_services("kubelet"), Vec::<u32>::new());
    }
}

#[test]
fn traces_are_read() {
    let root = tempfile::tempdir().unwrap();
    let table = Processes::new(root.path());
    write(root.path(), 5, &stat(5, "a", "S", 5));
    let place = root.path().join("5");
    fs::write(place.join("cgroup"), "0::/system.slice/docker-abc123.scope\n").unwrap();
    fs::write(place.join("environ"), "A=1\0MARK=xyz\0B=MARK=no\0").unwrap();
    symlink("pipe:[77]", place.join("fd/1")).unwrap();
    symlink("/dev/null", place.join("fd/2")).unwrap();
    assert!(table.is_in_cgroup(5, "abc123"));
    assert!(!table.is_in_cgroup(5, "abc124"));
    assert_eq!(table.variable(5, "MARK"), Some(Some("xyz".to_owned())));
    assert_eq!(table.variable(5, "MAR"), Some(None));
    fs::write(place.join("environ"), "").unwrap();
    assert_eq!(table.variable(5, "MARK"), None);
    assert_eq!(table.output_pipes(5), ["pipe:[77]"]);
    assert!(table.output_pipes(6).is_empty());
}

#[test]
fn the_real_table_shows_this_process() {
    let table = Processes::new("/proc");
    let own = table.get(std::process::id()).unwrap();
    assert!(own.is_alive && own.parent > 0);
    assert!(table.all().unwrap().contains(&own));
}

/// After an error, Rust's `ReadDir` returns no further entries.
#[test]
fn a_part_of_the_table_does_not_count_as_the_whole_table() {
    let names = || ["self", "7", "12"].map(|name| Ok(name.into())).into_iter();
    assert_eq!(pids_of(names()).unwrap(), [7, 12]);
    let too_early = [Err(std::io::ErrorKind::OutOfMemory.into())];
    pids_of(names().chain(too_early)).unwrap_err();
}

#[test]
fn nothing_counts_as_ended_if_the_table_cannot_be_read() {
    let root = tempfile::tempdir().unwrap();
    let table = Processes::new(root.path().join("absent"));
    table.all().unwrap_err();
    assert!(table.has_in(root.path()));
}

#[test]
fn the_age_of_a_process_is_the_time_since_its_start() {
    let root = tempfile::tempdir().unwrap();
    let table = Processes::new(root.path());
    let who = Identity { pid: 1, started: 12_345 };
    assert_eq!(table.age(who), None);
    fs::write(root.path().join("uptime"), "125.45 300.00\n").unwrap();
    assert_eq!(table.age(who), Some(Duration::from_millis(2000)));
}
