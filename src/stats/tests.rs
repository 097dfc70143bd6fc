//! Tests of readings from cgroup trees (v1, v2, hybrid), and of data that is kept between readings. The v1 and hybrid
//! trees in `tests/fixtures/cgroup` are copies from a machine with both versions, with changed mount points. The v2
//! trees follow the kernel's documentation.

mod holes;
mod layers;

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    collector::{Collector, ReadContext},
    disks,
    layer_walker::{LayerJob, StepResult},
    layers::{LONGEST_REST, Layers, Measurement, SHORTEST_REST},
    pods::{PodTarget, parents, sum},
    rates::Rates,
    read::file::Files,
    service::Stats,
};
use crate::{
    host::cgroup::Cgroups,
    model::{
        document::{ContainerDocument, SandboxDocument, VERSION},
        id::{ContainerId, SandboxId},
        network::NetworkMode,
        record::{ContainerRecord, ListedState, Process, SandboxRecord},
        stats::{
            ContainerReading, CpuReading, Detail, DeviceReading, Disks, GroupReading, LayerReading,
            Limit, MemoryReading, PidsReading, Pressure, SwapReading,
        },
        time::Nanos,
    },
    translate::render::{self, metrics::response::descriptors},
};

const ID: &str = "51bfc4e3fd8af5ee56f6155a664b572fae44046f8d368e7755713d13c79971e0";
const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000001";
const TREES: [&str; 4] = ["v1", "hybrid", "v2-systemd", "v2-cgroupfs"];

fn running(pid: u32) -> Process {
    Process::Running { pid, started_at: Nanos(1) }
}

fn container(id: &str, pid: u32) -> Arc<ContainerRecord> {
    let document: ContainerDocument = serde_json::from_value(json!({
        "version": 1,
        "spec": { "metadata": { "name": "c", "attempt": 0 }, "image": "app:1" },
        "sandbox": OTHER,
        "image_id": format!("sha256:{OTHER}"),
        "image_ref": format!("sha256:{OTHER}"),
    }))
    .unwrap();
    Arc::new(ContainerRecord {
        id: ContainerId::try_from(id).unwrap(),
        name: "k8s_c_pod_ns_uid_0".to_owned(),
        document: Arc::new(document),
        created_at: Nanos(1),
        process: running(pid),
        stop_signal: None,
        hides_signals: false,
        engine_log: None,
        log_driver: String::new(),
        writable_layer: None,
        limits: Default::default(),
        command_line: Vec::new(),
    })
}

fn sandbox(uid: &str, parent: &str) -> Arc<SandboxRecord> {
    let metadata = json!({ "name": "pod", "namespace": "ns", "uid": uid, "attempt": 0 });
    let spec = json!({ "metadata": metadata, "cgroup_parent": parent });
    let spec = serde_json::from_value(spec).unwrap();
    let network = NetworkMode::Docker;
    Arc::new(SandboxRecord {
        id: SandboxId::try_from(ID).unwrap(),
        name: "k8s_POD_pod_ns_uid_0".to_owned(),
        document: Arc::new(SandboxDocument {
            version: VERSION,
            spec,
            network,
            shim_group: None,
            is_adopted: false,
        }),
        created_at: Nanos(1),
        process: Some(running(42)),
        engine_addresses: Vec::new(),
        attachment: None,
    })
}

fn collector(tree: &str) -> Arc<Collector> {
    // This path and the mount points in the fixtures are relative to the crate's directory, in which tests run.
    Stats::new(Cgroups::from_proc(&Path::new("tests/fixtures/cgroup").join(tree).join("proc")))
        .collector
}

fn read(
    collector: &Collector,
    record: &Arc<ContainerRecord>,
    detail: Detail,
) -> Option<ContainerReading> {
    let options = collector.read_options(detail);
    collector.container(record, &mut ReadContext { options: &options, files: Files::default() })
}

#[test]
fn version_1_is_read_as_a_machine_shows_it() {
    for tree in ["v1", "hybrid"] {
        let reading = read(&collector(tree), &container(ID, 42), Detail::Everything).unwrap();
        let group = reading.group;
        let cpu = group.cpu.unwrap();
        assert!(cpu.at.is_set());
        assert_eq!((cpu.usage, cpu.nano_cores), (860_127_623, None), "{tree}");
        assert_eq!((cpu.user, cpu.system), (Some(790_000_000), Some(60_000_000)));
        assert_eq!((cpu.periods, cpu.throttled_periods), (Some(67), Some(21)));
        assert_eq!(cpu.throttled, Some(301_624_770));
        let memory = group.memory.unwrap();
        assert_eq!((memory.usage, memory.working_set), (9_342_976, 9_342_976 - 8_388_608));
        assert_eq!(memory.available, Some(67_108_864 - 954_368));
        assert_eq!(
            (memory.rss, memory.faults, memory.major_faults),
            (Some(114_688), Some(3272), Some(0))
        );
        assert_eq!(memory.oom_kills, Some(0));
        assert_eq!((cpu.quota, cpu.shares), (Some(Limit::At(20_000)), Some(1024)));
        let limits = (memory.limit, memory.swap_limit, memory.reserved);
        let wanted = (Some(Limit::At(67_108_864)), Some(Limit::At(134_217_728)));
        assert_eq!(limits, (wanted.0, wanted.1, Some(Limit::Unlimited)));
        assert!(memory.peak.is_some() && memory.kernel.is_some() && memory.limit_hits.is_some());
        let swap = SwapReading { at: memory.at, usage: 0, available: Some(67_108_864) };
        assert_eq!(group.swap, Some(swap));
        assert_eq!(group.pids.unwrap().tasks, 2);
        // With cgroup v1, a container has pressure figures only if cgroup v2 is also mounted.
        let total = |pressure: Option<Pressure>| pressure.map(|pressure| pressure.some.total);
        let wanted = (tree == "hybrid").then_some(1_720_083);
        assert_eq!(total(cpu.pressure), wanted);
        assert_eq!(memory.pressure.is_some(), tree == "hybrid");
        assert_eq!(group.io.and_then(|io| io.pressure).is_some(), tree == "hybrid");
    }
}

#[test]
fn version_2_is_read_under_both_drivers() {
    for tree in ["v2-systemd", "v2-cgroupfs"] {
        let collector = collector(tree);
        let group = read(&collector, &container(ID, 42), Detail::Everything).unwrap().group;
        let cpu = group.cpu.unwrap();
        assert_eq!((cpu.usage, cpu.user), (1_500_000_000, Some(1_000_000_000)), "{tree}");
        assert_eq!(cpu.pressure.unwrap().full.total, 1_234_000);
        let memory = group.memory.unwrap();
        assert_eq!((memory.usage, memory.working_set), (17_825_792, 9_437_184));
        assert_eq!(memory.available, Some(67_108_864 - 9_437_184));
        assert_eq!((memory.rss, memory.cache), (Some(3_145_728), Some(12_582_912)));
        assert_eq!((memory.oom_kills, memory.limit_hits), (Some(1), Some(3)));
        assert_eq!((memory.kernel, memory.peak), (Some(1_646_592), Some(20_971_520)));
        let swap = group.swap.unwrap();
        assert_eq!((swap.usage, swap.available), (1_048_576, Some(66_060_288)));
        let io = group.io.unwrap();
        assert_eq!((io.pressure.unwrap().some.total, io.devices.len()), (88, 1));
        assert_eq!((io.devices[0].major, io.devices[0].written_bytes), (8, 8_388_608));
        let tasks = group.pids.map(|pids| (pids.tasks, pids.limit));
        assert_eq!(tasks, Some((2, Some(Limit::Unlimited))));
        assert_eq!((cpu.quota, cpu.period), (Some(Limit::At(20_000)), Some(100_000)));
        assert_eq!(cpu.shares, Some(1024), "the usual weight");
        let limits = (memory.limit, memory.swap_limit, memory.reserved);
        let wanted = (67_108_864, 134_217_728, 0);
        let wanted = (Limit::At(wanted.0), Limit::At(wanted.1), Limit::At(wanted.2));
        assert_eq!(limits, (Some(wanted.0), Some(wanted.1), Some(wanted.2)));
    }
}

#[test]
fn statistics_leave_out_what_only_metrics_need() {
    for tree in TREES {
        let reading = read(&collector(tree), &container(ID, 42), Detail::Usage).unwrap();
        let memory = reading.group.memory.unwrap();
        assert_eq!((memory.peak, memory.oom_kills), (None, None), "{tree}");
        assert!(reading.group.io.is_none_or(|io| io.devices.is_empty()));
        assert_eq!((reading.processes, reading.group.hugepages.len()), (None, 0));
    }
}

#[test]
fn processes_are_read_where_they_are_asked_for() {
    for tree in TREES {
        let reading = read(&collector(tree), &container(ID, 42), Detail::Everything).unwrap();
        let processes = reading.processes.unwrap();
        assert_eq!((processes.processes, processes.threads), (1, 0), "{tree}");
        assert!(reading.group.pids.is_some(), "the kernel has counted them");
        assert!(processes.open_files_limit.is_some());
    }
}

/// OCI runtimes use two formulas to convert CPU shares to a weight, so only the request shows the original shares.
#[test]
fn shares_are_those_that_were_requested() {
    let root = tempfile::tempdir().unwrap();
    let proc = machine(root.path());
    let group = root.path().join("cg").join(ID);
    fs::write(group.join("cpu.stat"), "usage_usec 1\n").unwrap();
    let shares = |weight: &str, requested: i64| {
        fs::write(group.join("cpu.weight"), weight).unwrap();
        let mut record = ContainerRecord::clone(&container(ID, 7));
        record.limits.cpu_shares = requested;
        let collector = Stats::new(Cgroups::from_proc(&proc)).collector;
        read(&collector, &Arc::new(record), Detail::Everything).unwrap().group.cpu.unwrap().shares
    };
    for (weight, requested, told) in [
        ("59", 512, 512),
        ("20", 512, 512),
        ("1", 2, 2),
        ("100", 0, 1024),
        ("59", 0, 1522),
        ("59", 100, 1522),
    ] {
        assert_eq!(shares(weight, requested), Some(told), "weight {weight} of {requested}");
    }
}

/// Containers and pods have all metrics that dockbridge announces, except those that the kernel does not count.
#[test]
fn a_machine_reports_the_described_metrics() {
    let announced = descriptors();
    let announced: BTreeSet<&str> = announced.iter().map(|one| one.name.as_str()).collect();
    for tree in TREES {
        let collector = collector(tree);
        let pod = sandbox("6f2a", "/kubepods/burstable/pod6f2a");
        let all = [Arc::clone(&pod)];
        let target = PodTarget::among(&pod, &[container(ID, 42)], &parents(&all));
        collector.layers.set(ID, measured(0), Instant::now());
        let options = collector.read_options(Detail::Everything);
        let mut work = ReadContext { options: &options, files: Files::default() };
        let mut reading = collector.pod(&target, &mut work).unwrap();
        // Metrics of devices exist only after I/O, so the test adds a device.
        let io = reading.containers[0].group.io.as_mut().unwrap();
        io.devices.push(DeviceReading::default());
        let disks = disks::read(&collector.cgroups.proc, Some(Path::new("/")), &mut None);
        let answer = render::metrics::response::pod(&reading, &disks, "pause:1");
        let own = answer.container_metrics.iter().flat_map(|one| &one.metrics);
        let told = answer.metrics.iter().chain(own).map(|one| one.name.as_str());
        let told: BTreeSet<&str> = told.collect();
        let stray: Vec<_> = told.difference(&announced).collect();
        assert!(stray.is_empty(), "{tree}: told and not announced: {stray:?}");
        let missing: Vec<_> = announced.difference(&told).copied().collect();
        let uncounted = |name: &&str| match tree {
            "v1" => name.contains("_pressure_") || name.contains("_hugetlb_"),
            _ => name.contains("_hugetlb_"),
        };
        assert!(missing.iter().all(uncounted), "{tree}: announced and not told: {missing:?}");
        assert_eq!(told.contains("container_pressure_cpu_waiting_seconds_total"), tree != "v1");
    }
}

#[test]
fn disks_are_dropped_when_unreadable_for_long() {
    let (seen, begin) = (disks::DiskCache::default(), Instant::now());
    assert_eq!(*seen.at(begin), Disks::default());
    let root = tempfile::tempdir().unwrap();
    machine(root.path());
    let proc = root.path().join("proc");
    fs::write(proc.join("partitions"), "major minor  #blocks  name\n\n   8        1  9 sda1\n")
        .unwrap();
    let mut known = None;
    let read = disks::read(&proc, Some(&root.path().join("cg")), &mut known);
    assert_eq!(read.names[&(8, 1)], "/dev/sda1");
    let disk = read.layers.clone().unwrap();
    assert_eq!(disk.device, "cgroup2");
    assert!(disk.bytes > 0, "{disk:?}");
    symlink(root.path().join("cg"), root.path().join("link")).unwrap();
    let linked = disks::read(&proc, Some(&root.path().join("link")), &mut None);
    assert_eq!(linked.layers.unwrap().device, "cgroup2");
    seen.set(read.clone(), begin);
    assert_eq!(*seen.at(begin + Duration::from_secs(30)), read);
    assert_eq!(*seen.at(begin + Duration::from_secs(90)), Disks::default());
    assert_eq!(disks::read(&proc, None, &mut known).layers, None);
    assert_eq!(disks::read(&proc, Some(Path::new("/nowhere")), &mut known).layers, None);
    // dockbridge does not read the mount table again for the same directory on the same file system.
    fs::write(proc.join("self/mountinfo"), "").unwrap();
    let again = disks::read(&proc, Some(&root.path().join("cg")), &mut known);
    assert_eq!(again.layers.unwrap().device, "cgroup2");
    assert_eq!(disks::read(&proc, Some(Path::new("/proc")), &mut known).layers, None);
}

#[test]
fn what_ended_is_left_out_and_what_is_hidden_is_not() {
    let collector = collector("hybrid");
    assert!(read(&collector, &container(ID, 43), Detail::Usage).is_none(), "the process has ended");
    let hidden = read(&collector, &container(OTHER, 42), Detail::Usage).unwrap();
    assert_eq!(hidden.group, GroupReading::default(), "never a stranger's figures");
}

#[test]
fn a_pod_with_a_group_of_its_own() {
    for tree in TREES {
        let collector = collector(tree);
        let pod = sandbox("6f2a", "/kubepods/burstable/pod6f2a");
        let all = [Arc::clone(&pod)];
        let target = PodTarget::among(&pod, &[], &parents(&all));
        let options = collector.read_options(Detail::Usage);
        let mut work = ReadContext { options: &options, files: Files::default() };
        let reading = collector.pod(&target, &mut work).unwrap();
        let usage = reading.group.cpu.unwrap().usage;
        let wanted = match tree {
            "v1" | "hybrid" => told(tree, "cg/cpuacct/kubepods/burstable/pod6f2a/cpuacct.usage"),
            _ => 3_000_000_000,
        };
        assert_eq!(usage, wanted, "{tree}");
        let network = reading.network.unwrap();
        assert_eq!((network.default.name.as_str(), network.default.received.bytes), ("eth0", 1042));
        assert_eq!(network.others.len(), 1);
        assert!(reading.group.pids.unwrap().tasks >= 2);
    }
}

fn told(tree: &str, file: &str) -> u64 {
    let path = Path::new("tests/fixtures/cgroup").join(tree).join(file);
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// If another pod has the same cgroup parent, or the parent is `/` or missing, the pod's usage is the sum over
/// the cgroups of its containers.
#[test]
fn a_pod_beside_foreign_containers() {
    let own = read(&collector("v2-cgroupfs"), &container(ID, 42), Detail::Usage).unwrap().group;
    let (pod, stranger) = (sandbox("6f2a", "/shared/"), sandbox("77", "/shared"));
    let (nowhere, root) = (sandbox("6f2a", ""), sandbox("6f2a", "/"));
    for (pod, all) in [
        (&pod, vec![Arc::clone(&pod), stranger]),
        (&nowhere, vec![Arc::clone(&nowhere)]),
        (&root, vec![Arc::clone(&root)]),
    ] {
        let collector = collector("v2-cgroupfs");
        let options = collector.read_options(Detail::Usage);
        let mut work = ReadContext { options: &options, files: Files::default() };
        let target = PodTarget::among(pod, &[], &parents(&all));
        let group = collector.pod(&target, &mut work).unwrap().group;
        assert_eq!(group.cpu.as_ref().unwrap().usage, own.cpu.as_ref().unwrap().usage);
        assert_eq!(group.memory.as_ref().unwrap().available, None, "limits do not add up");
    }
    // An earlier sandbox of the same pod does not count as another pod.
    let attempts = [sandbox("6f2a", "/p"), sandbox("6f2a", "/p")];
    assert!(parents(&attempts).is_own(&attempts[0].document));
}

/// After a restart, dockbridge first has only the engine's list. A figure that dockbridge does not know yet is missing
/// and not 0. The sum over a pod's cgroups is missing until its running containers are inspected.
#[test]
fn a_figure_is_absent_until_the_inspect() {
    let collector = collector("v2-cgroupfs");
    let options = collector.read_options(Detail::Usage);
    let mut work = ReadContext { options: &options, files: Files::default() };
    let mut listed = container(OTHER, 42);
    Arc::make_mut(&mut listed).process = Process::Listed(ListedState::Running);
    let reading = collector.container(&listed, &mut work).unwrap();
    assert_eq!(reading.group, GroupReading::default());
    let shown = render::stats::container(&reading);
    assert_eq!((shown.cpu, shown.memory, shown.swap), (None, None, None));
    let pod = sandbox("6f2a", "");
    for (containers, is_known) in [(vec![container(ID, 42)], true), (vec![listed], false)] {
        let target = PodTarget::among(&pod, &containers, &parents(&[]));
        let reading = collector.pod(&target, &mut work).unwrap();
        let shown = render::stats::pod(&reading).linux.unwrap();
        assert_eq!((shown.cpu.is_some(), shown.memory.is_some()), (is_known, is_known));
        assert_eq!(shown.containers.len(), 1);
    }
    // If two pods have the same cgroup parent, the parent counts as the cgroup of neither pod.
    let (pod, mut other) = (sandbox("6f2a", "/p"), sandbox("77", "/p"));
    Arc::make_mut(&mut other).process = Some(Process::Listed(ListedState::Running));
    assert!(!parents(&[Arc::clone(&pod), other]).is_own(&pod.document));
}

#[test]
fn figures_of_groups_add_up() {
    let group = |usage: u64, nano_cores| GroupReading {
        cpu: Some(CpuReading {
            at: Nanos(i64::try_from(usage).unwrap_or(i64::MAX)),
            usage,
            nano_cores,
            pressure: Some(Pressure::default()),
            ..CpuReading::default()
        }),
        memory: Some(MemoryReading {
            usage,
            working_set: usage,
            available: Some(1),
            rss: Some(2),
            peak: Some(3),
            ..MemoryReading::default()
        }),
        pids: Some(PidsReading { at: Nanos(1), tasks: 2, limit: Some(Limit::At(9)) }),
        ..GroupReading::default()
    };
    let total = sum([group(10, None), GroupReading::default(), group(5, Some(7))].iter());
    let cpu = total.cpu.unwrap();
    assert_eq!((cpu.usage, cpu.nano_cores, cpu.at, cpu.pressure), (15, Some(7), Nanos(10), None));
    let memory = total.memory.unwrap();
    assert_eq!((memory.usage, memory.working_set, memory.rss), (15, 15, Some(4)));
    assert_eq!((memory.available, memory.peak), (None, None));
    assert_eq!(total.pids, Some(PidsReading { at: Nanos(1), tasks: 4, limit: None }));
    let alone = sum([group(u64::MAX, None), group(1, None)].iter()).cpu.unwrap();
    assert_eq!((alone.usage, alone.pressure), (u64::MAX, None));
    assert_eq!(sum([].iter()), GroupReading::default());
}

#[test]
fn rates_need_two_readings_some_time_apart() {
    let (rates, begin) = (Rates::default(), Instant::now());
    let after = |millis| begin + Duration::from_millis(millis);
    assert_eq!(rates.next("a", 1_000, begin), None);
    assert_eq!(rates.next("a", 9_999, after(100)), None, "too soon to divide by");
    assert_eq!(rates.next("a", 1_000_001_000, after(2000)), Some(500_000_000));
    assert_eq!(rates.next("a", 5_000_000_000, after(2100)), Some(500_000_000), "the last one");
    assert_eq!(rates.next("a", 1_000_001_000, after(4000)), Some(0));
    assert_eq!(rates.next("a", 7, after(6000)), None, "another group by the same name");
    assert_eq!(rates.next("b", 7, after(6000)), None);
    assert_eq!(rates.next("a", u64::MAX, after(7000)), Some(u64::MAX - 7));
    rates.retain(&HashSet::from(["b"]));
    assert_eq!(rates.len(), 1);
}

#[test]
fn only_what_runs_is_remembered() {
    let collector = collector("v2-cgroupfs");
    let (pod, one) = (sandbox("6f2a", "/p"), container(ID, 42));
    read(&collector, &one, Detail::Usage).unwrap();
    collector.layers.set(ID, measured(0), Instant::now());
    collector.retain(&[Arc::clone(&one)], &[Arc::clone(&pod)]);
    let group = || collector.cgroups.cached(42, ID);
    assert!(group().is_some() && collector.rates.len() == 1);
    assert!(collector.layers.of(ID).is_some());
    collector.retain(&[], &[]);
    assert!(group().is_none() && collector.rates.len() == 0);
    assert_eq!(collector.layers.of(ID), None);
}

fn measured(bytes: u64) -> Measurement {
    let reading = Some(LayerReading { bytes, ..LayerReading::default() });
    Measurement { reading, ..Measurement::default() }
}

/// Files of a machine: process 7 in the cgroup of `ID`, and a writable layer.
fn machine(root: &Path) -> PathBuf {
    let proc = root.join("proc");
    for (file, text) in [
        ("proc/7/cgroup", format!("0::/{ID}\n")),
        (
            "proc/self/mountinfo",
            format!("3 4 0:5 / {}/cg rw - cgroup2 cgroup2 rw\n", root.display()),
        ),
        (&format!("cg/{ID}/memory.max"), "max\n".to_owned()),
        ("home/x/diff/file", "x".repeat(10_000)),
        ("home/x/diff/folder/file", "x".repeat(5000)),
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    proc
}
