//! Finds cgroups in trees of several layouts, which the tests create in a temporary directory.

use std::{fs, path::Path, sync::Arc, time::Instant};

use super::{
    Cgroups, Hierarchy, hugetlb::sizes_in, limits::UNLIMITED, read, weight::CpuWeight, write,
};

const ID: &str = "4f5c1e9d8b7a6f5e4d3c2b1a09f8e7d6c5b4a3928170f6e5d4c3b2a190817263";

/// A host in a temporary directory: its mount table, one process and the files of its cgroups.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    /// Each mount is `(mounted directory, mount point, type, options)`.
    fn new(mounts: &[(&str, &str, &str, &str)], memberships: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let table: Vec<String> = mounts
            .iter()
            .map(|(shown, point, kind, options)| {
                let point = root.path().join(point).display().to_string().replace(' ', "\\040");
                format!("33 31 0:29 {shown} {point} rw,relatime shared:9 - {kind} {kind} {options}")
            })
            .collect();
        let machine = Self { root };
        let other = "22 1 8:1 / / rw - ext4 /dev/vda rw\n";
        machine.file("proc/self/mountinfo", &format!("{other}{}\n", table.join("\n")));
        machine.file("proc/42/cgroup", &memberships.replace("ID", ID));
        machine.file("proc/42/oom_score_adj", "-997\n");
        machine
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root.path().join(path.replace("ID", ID));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cgroups(&self) -> Cgroups {
        Cgroups::from_proc(&self.root.path().join("proc"))
    }

    fn below<'a>(&self, path: &'a Path) -> &'a str {
        path.strip_prefix(self.root.path()).unwrap().to_str().unwrap()
    }
}

fn unified(machine: &Machine, folder: &str) {
    for (file, text) in [
        ("cpu.max", "50000 100000\n"),
        ("cpu.weight", "20\n"),
        ("memory.max", "67108864\n"),
        ("memory.swap.max", "1048576\n"),
        ("memory.current", "5000000\n"),
        ("memory.stat", "anon 1\ninactive_anon 7\ninactive_file 1000000\nactive_file 5\n"),
        ("cpuset.cpus", "\n"),
        ("cpuset.mems", "0\n"),
    ] {
        machine.file(&format!("{folder}/{file}"), text);
    }
}

#[test]
fn version_2_under_systemd_is_found() {
    let path = "/kubepods.slice/kubepods-pod1.slice/docker-ID.scope";
    let machine = Machine::new(&[("/", "cg", "cgroup2", "rw,nsdelegate")], &format!("0::{path}\n"));
    unified(&machine, &format!("cg{path}"));
    let group = machine.cgroups().find(42, ID).unwrap();
    let (hierarchy, place) = group.directory("memory").unwrap();
    assert_eq!(hierarchy, Hierarchy::V2);
    assert_eq!(machine.below(place), format!("cg{path}").replace("ID", ID));
    assert_eq!(group.scope(), Some(format!("docker-{ID}.scope").as_str()));
    let limits = group.limits(42);
    assert_eq!((limits.cpu_quota, limits.cpu_period), (Some(50_000), Some(100_000)));
    assert_eq!(limits.cpu_weight, Some(CpuWeight::Weight(20)));
    assert_eq!((limits.memory, limits.memory_and_swap), (Some(64 << 20), Some(65 << 20)));
    assert_eq!((limits.cpus.as_deref(), limits.mems.as_deref()), (Some(""), Some("0")));
    assert_eq!(limits.oom_score_adj, Some(-997));
    assert_eq!(group.working_set(), Some(4_000_000));
}

#[test]
fn version_2_without_limits_is_found() {
    let machine = Machine::new(&[("/", "cg", "cgroup2", "rw")], "0::/docker/ID\n");
    for (file, text) in [("cpu.max", "max 100000"), ("memory.max", "max")] {
        machine.file(&format!("cg/docker/ID/{file}"), text);
    }
    let group = machine.cgroups().find(42, ID).unwrap();
    let limits = group.limits(42);
    assert_eq!((limits.cpu_quota, limits.memory), (Some(UNLIMITED), Some(UNLIMITED)));
    assert_eq!((limits.memory_and_swap, limits.cpu_weight, limits.cpus), (None, None, None));
    assert_eq!((group.scope(), group.working_set()), (None, None));
}

/// Only a part of the cgroup tree is mounted, and the process has moved to a cgroup below the container's.
#[test]
fn version_2_is_found_from_within_a_container() {
    let machine = Machine::new(
        &[("/outer/inner", "with blank/cg", "cgroup2", "rw")],
        "0::/outer/inner/kubepods/pod1/ID/init.scope\n",
    );
    unified(&machine, "with blank/cg/kubepods/pod1/ID");
    let group = machine.cgroups().find(42, ID).unwrap();
    let place = machine.below(group.v2().unwrap()).to_owned();
    assert_eq!(place, format!("with blank/cg/kubepods/pod1/{ID}"));
    assert_eq!(group.scope(), None);
}

/// In a cgroup namespace, `/..` in a path is the cgroup above the namespace's root.
#[test]
fn version_2_is_found_from_a_container_beside() {
    let machine = Machine::new(&[("/..", "cg", "cgroup2", "rw")], "0::/../kubepods/ID\n");
    unified(&machine, "cg/kubepods/ID");
    assert!(machine.cgroups().find(42, ID).is_ok());
}

/// Finding a cgroup again returns the cached one, with its open files, unless the process has moved.
#[test]
fn what_was_found_is_found_again() {
    let machine = Machine::new(&[("/", "cg", "cgroup2", "rw")], "0::/kubepods/ID\n");
    unified(&machine, "cg/kubepods/ID");
    unified(&machine, "cg/moved/ID");
    let cgroups = machine.cgroups();
    assert!(cgroups.cached(42, ID).is_none());
    let group = cgroups.find(42, ID).unwrap();
    assert!(Arc::ptr_eq(&group, &cgroups.find(42, ID).unwrap()));
    assert!(Arc::ptr_eq(&group, &cgroups.cached(42, ID).unwrap()));
    assert!(cgroups.cached(43, ID).is_none(), "another process");
    assert!(
        cgroups.contains(42, ID) && !cgroups.contains(42, "other") && !cgroups.contains(43, ID)
    );

    machine.file("proc/42/cgroup", &format!("0::/moved/{ID}\n"));
    let moved = cgroups.find(42, ID).unwrap();
    assert_eq!(machine.below(moved.v2().unwrap()), format!("cg/moved/{ID}"));
    assert!(Arc::ptr_eq(&moved, &cgroups.cached(42, ID).unwrap()));
    cgroups.retain(|owner| owner != ID);
    assert!(cgroups.cached(42, ID).is_none());
}

#[test]
fn version_1_with_controllers_mounted_together_is_found() {
    let machine = Machine::new(
        &[
            ("/", "cg/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct"),
            ("/", "cg/memory", "cgroup", "rw,memory"),
            ("/", "cg/cpuset", "cgroup", "rw,cpuset"),
            ("/", "cg/systemd", "cgroup", "rw,xattr,release_agent=/x,name=systemd"),
        ],
        "12:cpuset:/kubepods/ID\n6:cpu,cpuacct:/kubepods/ID\n4:memory:/kubepods/ID\n\
         1:name=systemd:/\n0::/\n",
    );
    for (file, text) in [
        ("cpu,cpuacct/kubepods/ID/cpu.cfs_quota_us", "-1\n"),
        ("cpu,cpuacct/kubepods/ID/cpu.cfs_period_us", "100000\n"),
        ("cpu,cpuacct/kubepods/ID/cpu.shares", "512\n"),
        ("memory/kubepods/ID/memory.limit_in_bytes", "67108864\n"),
        ("memory/kubepods/ID/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
        ("memory/kubepods/ID/memory.usage_in_bytes", "3000\n"),
        ("memory/kubepods/ID/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n"),
        ("cpuset/kubepods/ID/cpuset.cpus", "0-1\n"),
        ("cpuset/kubepods/ID/cpuset.mems", "0\n"),
    ] {
        machine.file(&format!("cg/{file}"), text);
    }
    let group = machine.cgroups().find(42, ID).unwrap();
    assert_eq!(group.directory("memory").unwrap().0, Hierarchy::V1);
    assert_eq!((group.v2(), group.directory("hugetlb")), (None, None));
    let limits = group.limits(42);
    assert_eq!((limits.cpu_quota, limits.cpu_weight), (Some(-1), Some(CpuWeight::Shares(512))));
    assert_eq!((limits.memory, limits.memory_and_swap), (Some(64 << 20), Some(UNLIMITED)));
    assert_eq!(limits.cpus.as_deref(), Some("0-1"));
    assert_eq!(group.working_set(), Some(2000));
}

/// On a host with both cgroup versions, dockbridge uses a controller of version 1 if that version has it,
/// otherwise the controller of version 2.
#[test]
fn hybrid_with_systemd_scopes_is_found() {
    let machine = Machine::new(
        &[("/", "cg/unified", "cgroup2", "rw"), ("/", "cg/memory", "cgroup", "rw,memory")],
        "4:memory:/system.slice/docker-ID.scope\n0::/system.slice/docker-ID.scope\n",
    );
    machine.file("cg/memory/system.slice/docker-ID.scope/memory.limit_in_bytes", "4096\n");
    machine.file("cg/unified/system.slice/docker-ID.scope/cgroup.controllers", "hugetlb\n");
    let cgroups = machine.cgroups();
    let group = cgroups.find(42, ID).unwrap();
    assert_eq!(group.directory("memory").unwrap().0, Hierarchy::V1);
    assert_eq!(group.directory("hugetlb").unwrap().0, Hierarchy::V2);
    assert!(group.scope().unwrap().starts_with("docker-"));
    machine.file("cg/unified/cgroup.controllers", "hugetlb misc\n");
    assert_eq!(cgroups.has_controller(Hierarchy::V1, "memory"), Some(true));
    assert_eq!(cgroups.has_controller(Hierarchy::V1, "hugetlb"), Some(false));
    assert_eq!(cgroups.has_controller(Hierarchy::V2, "hugetlb"), Some(true));
}

#[test]
fn a_foreign_pid_has_no_cgroup_here() {
    let machine = Machine::new(&[("/", "cg", "cgroup2", "rw")], "0::/user.slice/sshd.scope\n");
    machine.file("cg/user.slice/sshd.scope/memory.max", "max\n");
    let cgroups = machine.cgroups();
    for (pid, owner) in [(42, ID), (42, ""), (43, ID)] {
        let error = cgroups.find(pid, owner).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{pid} {owner:?}");
    }
}

#[test]
fn files_are_read_and_written_by_plain_names_only() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("memory.high"), "max\n").unwrap();
    assert_eq!(read(folder.path(), "memory.high").unwrap(), "max");
    write(folder.path(), "memory.high", "4096").unwrap();
    assert_eq!(read(folder.path(), "memory.high").unwrap(), "4096");
    for name in ["", ".", "..", "../memory.high", "a/b", "/etc/passwd"] {
        assert!(read(folder.path(), name).is_err(), "{name}");
        assert!(write(folder.path(), name, "1").is_err(), "{name}");
    }
    let missing = write(folder.path(), "memory.min", "1").unwrap_err();
    assert!(missing.is_not_found() && !folder.path().join("memory.min").exists());
}

#[test]
fn page_sizes_are_spelt_as_the_files_are() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["hugepages-1048576kB", "hugepages-2048kB", "hugepages-64kB", "other"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    assert_eq!(sizes_in(folder.path()), ["64KB", "2MB", "1GB"]);
    assert!(sizes_in(&folder.path().join("none")).is_empty());
}

// A host may have many mounts, and many processes whose cgroup dockbridge cannot see. Reading the mount table
// for each process would be most of the work.
#[test]
fn a_long_table_of_mounts_is_not_read_for_every_process() {
    let machine = Machine::new(&[], "0::/docker/ID\n");
    let table: String = (0..20_000)
        .map(|number| format!("{number} 1 8:1 / /mnt/{number} rw shared:{number} - tmpfs t rw\n"))
        .collect();
    machine.file("proc/self/mountinfo", &table);
    let cgroups = machine.cgroups();
    let timed = |times: u32| {
        let begun = Instant::now();
        for _ in 0..times {
            assert!(cgroups.find(42, ID).is_err());
        }
        begun.elapsed()
    };
    let (once, often) = (timed(1), timed(1000));
    assert!(often < once * 200, "{once:?} for the first, {often:?} for a thousand more");
}
