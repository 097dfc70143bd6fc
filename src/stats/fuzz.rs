//! Target of `make fuzz` that reads random bytes as files of a cgroup and renders the figures, and parses the bytes as
//! files of `/proc`.

#![allow(clippy::expect_used, reason = "a fuzz target fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    pods,
    read::{file::Files, group, group_files::ReadOptions, interfaces, partitions, processes},
};
use crate::{
    host::{
        cgroup::{Cgroups, kills::kills},
        mounts::upper_directories,
    },
    model::{
        stats::{ContainerReading, Detail, Disks, PodReading},
        time::Nanos,
    },
    translate::{
        fuzz::{POD, WORKLOAD},
        render,
    },
};

/// The input has parts that are separated by NULs. The first line of a part is the name of a file, the other lines are
/// its content. All files are in the same directory, which is read as a v1 cgroup and as a v2 cgroup.
pub(crate) fn cgroup(bytes: &[u8]) {
    PLACE.with(|Place(place)| of_place(bytes, place));
    let text = String::from_utf8_lossy(bytes);
    let _ = interfaces::network(&text, "eth0", Nanos(1));
    let uppers = upper_directories(&text, Path::new("/"));
    let _ = (partitions::names(&text), uppers, super::collector::machine_memory(&text));
    let _ = (processes::threads(&text), processes::open_files_limit(&text));
}

fn of_place(bytes: &[u8], place: &Path) {
    let group = place.join("cg").join(OWNER);
    let mut written = Vec::new();
    for part in bytes.split(|byte| *byte == 0) {
        let line = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
        let (name, content) = part.split_at(line);
        let known = FILES.iter().find(|file| file.as_bytes() == name);
        if let Some(file) = known.map(|file| group.join(file)) {
            fs::write(&file, content.get(1..).unwrap_or_default()).expect("a file is written");
            written.push(file);
        }
    }
    for version in ["v1", "v2"] {
        read(place, version);
    }
    written.iter().for_each(|file| drop(fs::remove_file(file)));
}

/// Reads the files as those of a cgroup of `version`, and renders the figures.
fn read(place: &Path, version: &str) {
    let cgroups = Cgroups::from_proc(&place.join(version));
    let group = cgroups.find(PID, OWNER).expect("the group is there");
    let (limits, _) = (group.limits(PID), group.working_set());
    assert!(limits.memory.is_none_or(|memory| memory >= -1 || version == "v1"));
    let _ = kills(&place.join("cg").join(OWNER));
    let options = ReadOptions {
        detail: Detail::Everything,
        page_sizes: vec!["2MB".to_owned()],
        machine_memory: u64::MAX,
        now: || Nanos(1),
    };
    let mut files = Files::default();
    let reading = group::read(&group, 0, &options, &mut files);
    let processes = processes::read(&cgroups.proc, PID, &group, &reading, &mut files);
    let container = ContainerReading {
        record: Arc::clone(&WORKLOAD),
        group: reading.clone(),
        processes: Some(processes),
        layer: None,
    };
    let _ = render::stats::container(&container);
    let pod = PodReading {
        group: pods::sum([&reading, &reading].into_iter()),
        containers: vec![container],
        ..PodReading::unknown(&Arc::new(POD.clone()))
    };
    let _ = render::stats::pod(&pod);
    let _ = render::metrics::response::pod(&pod, &Disks::default(), "pause");
}

/// The directory with the cgroup's files. The directory is removed when the thread ends.
struct Place(PathBuf);

thread_local! {
    static PLACE: Place = Place::new();
}

impl Place {
    fn new() -> Self {
        let place = std::env::temp_dir().join(format!("dockbridge-fuzz-{}", std::process::id()));
        fs::create_dir_all(place.join("cg").join(OWNER)).expect("a directory is made");
        let point = place.join("cg");
        let mount = |rest: &str| format!("1 0 0:1 / {} rw - {rest}\n", point.display());
        let tables = [
            ("v2", mount("cgroup2 cgroup rw"), String::from("0::")),
            ("v1", mount(&format!("cgroup cgroup rw,{LEGACY}")), format!("1:{LEGACY}:")),
        ];
        for (version, mounts, member) in tables {
            let process = place.join(version).join(PID.to_string());
            fs::create_dir_all(place.join(version).join("self")).expect("a directory is made");
            fs::create_dir_all(&process).expect("a directory is made");
            fs::write(place.join(version).join("self/mountinfo"), mounts).expect("written");
            fs::write(process.join("cgroup"), format!("{member}/{OWNER}\n")).expect("written");
        }
        Self(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const LEGACY: &str = "cpu,cpuacct,cpuset,memory,blkio,pids,hugetlb";
const PID: u32 = 42;
const OWNER: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
/// Names of the cgroup files that the input can contain.
const FILES: [&str; 42] = [
    "cpu.stat",
    "cpu.max",
    "cpu.weight",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.pressure",
    "cpuacct.usage",
    "cpuacct.stat",
    "cpuset.cpus",
    "cpuset.mems",
    "memory.stat",
    "memory.current",
    "memory.max",
    "memory.min",
    "memory.peak",
    "memory.events",
    "memory.swap.current",
    "memory.swap.max",
    "memory.pressure",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.soft_limit_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.failcnt",
    "memory.kmem.usage_in_bytes",
    "memory.oom_control",
    "io.stat",
    "io.pressure",
    "blkio.throttle.io_service_bytes_recursive",
    "blkio.throttle.io_serviced_recursive",
    "pids.current",
    "pids.max",
    "cgroup.procs",
    "hugetlb.2MB.current",
    "hugetlb.2MB.events",
    "hugetlb.2MB.usage_in_bytes",
    "hugetlb.2MB.max_usage_in_bytes",
    "hugetlb.2MB.failcnt",
    "memory.high",
    "memory.low",
];
