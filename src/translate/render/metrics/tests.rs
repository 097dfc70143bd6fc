//! Tests of the table of metrics: every descriptor has samples with its labels. An unknown value has no sample.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::json;

use super::{
    response::{descriptors, pod},
    table::BASE_LABELS,
};
use crate::{
    model::{
        document::{ContainerDocument, SandboxDocument, VERSION},
        id::{ContainerId, SandboxId},
        network::NetworkMode,
        record::{ContainerRecord, Process, SandboxRecord},
        stats::{
            ContainerReading, CpuReading, DeviceReading, DiskReading, Disks, GroupReading,
            HugepageReading, InterfaceReading, IoReading, LayerReading, Limit, MemoryReading,
            NetworkReading, PidsReading, PodReading, Pressure, ProcessReading, Stall, SwapReading,
            TrafficReading,
        },
        time::Nanos,
    },
    wire::cri,
};

const POD: &str = "0000000000000000000000000000000000000000000000000000000000000001";
const ID: &str = "51bfc4e3fd8af5ee56f6155a664b572fae44046f8d368e7755713d13c79971e0";
const PAUSE: &str = "pause:1";
/// The number of nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

fn started(seconds: i64) -> Process {
    Process::Running { pid: 7, started_at: Nanos(seconds * 1_000_000_000) }
}

fn container_record(user_image: &str) -> ContainerRecord {
    let document: ContainerDocument = serde_json::from_value(json!({
        "version": 1,
        "spec": {
            "metadata": { "name": "main", "attempt": 0 },
            "image": "app:1",
            "user_image": user_image,
        },
        "sandbox": POD,
        "image_id": format!("sha256:{POD}"),
        "image_ref": format!("sha256:{POD}"),
    }))
    .unwrap();
    ContainerRecord {
        id: ContainerId::try_from(ID).unwrap(),
        name: "k8s_main_web_shop_uid_0".to_owned(),
        document: Arc::new(document),
        created_at: Nanos(1),
        process: started(200),
        stop_signal: None,
        hides_signals: false,
        engine_log: None,
        log_driver: String::new(),
        writable_layer: None,
        limits: Default::default(),
        command_line: Vec::new(),
    }
}

fn sandbox_record() -> SandboxRecord {
    let metadata = json!({ "name": "web", "namespace": "shop", "uid": "uid", "attempt": 0 });
    let spec = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    let network = NetworkMode::Docker;
    SandboxRecord {
        id: SandboxId::try_from(POD).unwrap(),
        name: "k8s_POD_web_shop_uid_0".to_owned(),
        document: Arc::new(SandboxDocument {
            version: VERSION,
            spec,
            network,
            shim_group: None,
            is_adopted: false,
        }),
        created_at: Nanos(1),
        process: Some(started(100)),
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

fn pressure(seconds: u64) -> Option<Pressure> {
    let stall = |micros| Stall { total: micros, ..Stall::default() };
    Some(Pressure { some: stall(seconds * 1_000_000), full: stall((seconds + 1) * 1_000_000) })
}

/// A reading in which each figure has a different number, derived from `base`.
fn full_group(base: u64) -> GroupReading {
    let at = Nanos(9_000_000_000);
    let seconds = |number: u64| (base + number) * SECOND;
    let some = |number: u64| Some(base + number);
    GroupReading {
        cpu: Some(CpuReading {
            at,
            usage: seconds(1),
            nano_cores: None,
            user: Some(seconds(2)),
            system: Some(seconds(3)),
            periods: some(4),
            throttled_periods: some(5),
            throttled: Some(seconds(6)),
            quota: Some(Limit::At(base + 7)),
            period: some(8),
            shares: some(9),
            pressure: pressure(base + 10),
        }),
        memory: Some(MemoryReading {
            at,
            usage: base + 12,
            working_set: base + 13,
            available: None,
            rss: some(14),
            cache: some(15),
            active_file: some(16),
            inactive_file: some(17),
            mapped_file: some(18),
            kernel: some(19),
            peak: some(20),
            limit_hits: some(21),
            oom_kills: some(22),
            faults: some(23),
            major_faults: some(24),
            own_faults: some(25),
            own_major_faults: some(26),
            limit: Some(Limit::At(base + 27)),
            swap_limit: Some(Limit::Unlimited),
            reserved: Some(Limit::At(base + 28)),
            pressure: pressure(base + 29),
        }),
        swap: Some(SwapReading { at, usage: base + 31, available: None }),
        io: Some(IoReading {
            at,
            pressure: pressure(base + 32),
            devices: vec![
                DeviceReading {
                    major: 8,
                    minor: 0,
                    read_bytes: base + 1024,
                    written_bytes: base + 2048,
                    discarded_bytes: base + 34,
                    reads: base + 35,
                    writes: base + 36,
                },
                DeviceReading { major: 9, minor: 1, ..DeviceReading::default() },
            ],
        }),
        pids: Some(PidsReading { at, tasks: base + 38, limit: Some(Limit::At(base + 39)) }),
        hugepages: vec![HugepageReading {
            size: "2MB".to_owned(),
            usage: base + 40,
            peak: some(41),
        }],
    }
}

fn processes() -> ProcessReading {
    ProcessReading {
        processes: 50,
        threads: 51,
        descriptors: Some(52),
        sockets: Some(53),
        open_files_limit: Some(55),
    }
}

fn layer() -> LayerReading {
    LayerReading { at: Nanos(77), mountpoint: "/layers".into(), bytes: 60, inodes: 61 }
}

fn network() -> NetworkReading {
    let interface = |name: &str, base: u64| {
        let traffic = |base| TrafficReading {
            bytes: base,
            packets: base + 1,
            errors: base + 2,
            dropped: base + 3,
        };
        InterfaceReading { name: name.to_owned(), received: traffic(base), sent: traffic(base + 4) }
    };
    let others = vec![interface("lo", 500), interface("net1", 600)];
    NetworkReading { at: Nanos(1), default: interface("eth0", 400), others }
}

fn disks() -> Disks {
    let layers =
        DiskReading { device: "/dev/sda1".to_owned(), bytes: 70, inodes: 71, free_inodes: 72 };
    Disks { names: BTreeMap::from([((8, 0), "/dev/sda".to_owned())]), layers: Some(layers) }
}

fn full() -> PodReading {
    let container = ContainerReading {
        record: Arc::new(container_record("shop/app:1")),
        group: full_group(100_000),
        processes: Some(processes()),
        layer: Some(layer()),
    };
    PodReading {
        record: Arc::new(sandbox_record()),
        group: full_group(200_000),
        network: Some(network()),
        containers: vec![container],
    }
}

/// All samples of an answer, those of the pod and those of containers.
fn samples(answer: &cri::PodSandboxMetrics) -> Vec<&cri::Metric> {
    let containers = answer.container_metrics.iter().flat_map(|one| &one.metrics);
    answer.metrics.iter().chain(containers).collect()
}

fn names(answer: &cri::PodSandboxMetrics) -> BTreeSet<&str> {
    samples(answer).into_iter().map(|sample| sample.name.as_str()).collect()
}

#[test]
fn described_metrics_have_samples_with_their_labels() {
    let announced = descriptors();
    let answer = pod(&full(), &disks(), PAUSE);
    let out = names(&answer);
    for one in &announced {
        assert!(out.contains(one.name.as_str()), "{} is never out", one.name);
        assert!(
            !one.help.is_empty() && one.label_keys.starts_with(&BASE_LABELS.map(str::to_owned))
        );
        assert!(one.name.starts_with("container_"), "{}", one.name);
        let counts = one.name.ends_with("_total") && one.name != "container_fs_inodes_total"
            || one.name == "container_memory_failcnt";
        for sample in samples(&answer).into_iter().filter(|sample| sample.name == one.name) {
            assert_eq!(sample.label_values.len(), one.label_keys.len(), "{}", one.name);
            assert!(sample.value.is_some());
            let kind = if counts { cri::MetricType::Counter } else { cri::MetricType::Gauge };
            assert_eq!(sample.metric_type(), kind, "{}", one.name);
        }
    }
    let names: BTreeSet<&str> = announced.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), announced.len(), "a name is announced twice");
}

/// Two samples with the same name and labels would be two values of one Prometheus time series.
#[test]
fn no_sample_is_repeated() {
    let answer = pod(&full(), &disks(), PAUSE);
    let all = samples(&answer);
    let distinct: BTreeSet<_> = all.iter().map(|one| (&one.name, &one.label_values)).collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn samples_have_the_labels_of_pod_and_container() {
    let answer = pod(&full(), &disks(), PAUSE);
    let labels = |metrics: &[cri::Metric], name: &str| {
        let found = metrics.iter().find(|one| one.name == name);
        found.map(|one| one.label_values.clone()).unwrap_or_default()
    };
    let memory = "container_memory_rss";
    assert_eq!(labels(&answer.metrics, memory), ["web", "shop", "", POD, "", ""]);
    let network = labels(&answer.metrics, "container_network_receive_bytes_total");
    let holder = ["web", "shop", "POD", POD, PAUSE, "k8s_POD_web_shop_uid_0", "eth0"];
    assert_eq!(network, holder);
    let container = &answer.container_metrics[0];
    assert_eq!((answer.pod_sandbox_id.as_str(), container.container_id.as_str()), (POD, ID));
    let own = ["web", "shop", "main", ID, "shop/app:1", "k8s_main_web_shop_uid_0"];
    assert_eq!(labels(&container.metrics, memory), own);
    let mut unnamed = full();
    unnamed.containers[0].record = Arc::new(container_record(""));
    let answer = pod(&unnamed, &disks(), PAUSE);
    assert_eq!(labels(&answer.container_metrics[0].metrics, memory)[4], "app:1");
}

/// Each metric has the value of the figure that its name says.
#[test]
fn metrics_have_the_values_that_were_read() {
    let answer = pod(&full(), &disks(), PAUSE);
    let value = |metrics: &[cri::Metric], name: &str, labels: &[&str]| {
        let name = format!("container_{name}");
        let mut found =
            metrics.iter().filter(|one| one.name == name && one.label_values[6..] == *labels);
        let one = found.next().unwrap_or_else(|| panic!("no {name} {labels:?}"));
        one.value.unwrap().value
    };
    let (own, whole) = (&answer.container_metrics[0].metrics, &answer.metrics);
    for (name, labels, expected) in OF_BOTH {
        assert_eq!(value(own, name, labels), 100_000 + expected, "{name} {labels:?}");
        assert_eq!(value(whole, name, labels), 200_000 + expected, "{name} {labels:?} of the pod");
    }
    for (name, labels, expected) in OF_CONTAINERS {
        assert_eq!(value(own, name, labels), *expected, "{name} {labels:?}");
    }
    for (name, labels, expected) in OF_PODS {
        assert_eq!(value(whole, name, labels), *expected, "{name} {labels:?}");
    }
    assert!(samples(&answer).iter().all(|one| !one.label_values.contains(&"lo".to_owned())));
}

/// kubelet reads the time 0 as "current". Only values that were measured earlier have a time.
#[test]
fn only_cached_values_have_a_time() {
    let answer = pod(&full(), &disks(), PAUSE);
    for sample in samples(&answer) {
        let expected = if sample.name == "container_fs_usage_bytes" { 77 } else { 0 };
        assert_eq!(sample.timestamp, expected, "{}", sample.name);
    }
}

#[test]
fn unknown_figures_are_absent_and_not_zero() {
    let mut unknown = full();
    (unknown.group, unknown.network) = (GroupReading::default(), None);
    unknown.containers[0].group = GroupReading::default();
    (unknown.containers[0].processes, unknown.containers[0].layer) = (None, None);
    let answer = pod(&unknown, &Disks::default(), PAUSE);
    assert_eq!(names(&answer), BTreeSet::from(["container_start_time_seconds"]));
    // The readings of this container are incomplete.
    let mut sparse = full();
    sparse.containers[0].group = GroupReading {
        cpu: Some(CpuReading::default()),
        memory: Some(MemoryReading::default()),
        pids: Some(PidsReading::default()),
        ..GroupReading::default()
    };
    let answer = pod(&sparse, &disks(), PAUSE);
    let out: BTreeSet<&str> =
        answer.container_metrics[0].metrics.iter().map(|one| one.name.as_str()).collect();
    for hole in ["cpu_user", "cpu_cfs", "spec_", "pressure", "memory_rss", "memory_fail", "oom"] {
        let hole = format!("container_{hole}");
        assert!(!out.iter().any(|name| name.starts_with(&hole)), "{hole} is out: {out:?}");
    }
}

/// Containers that never had a CPU quota have no sample of `container_cpu_cfs_periods_total`.
#[test]
fn cfs_periods_are_reported_with_a_quota() {
    for (quota, periods, expected) in [
        (Some(Limit::At(5)), 0, true),
        (Some(Limit::Unlimited), 0, false),
        (Some(Limit::Unlimited), 3, true),
        (None, 0, false),
    ] {
        let mut reading = full();
        let cpu = reading.containers[0].group.cpu.as_mut().unwrap();
        (cpu.quota, cpu.periods) = (quota, Some(periods));
        let answer = pod(&reading, &disks(), PAUSE);
        let own = &answer.container_metrics[0].metrics;
        let out = own.iter().any(|one| one.name == "container_cpu_cfs_periods_total");
        assert_eq!(out, expected, "{quota:?} {periods}");
    }
}

/// Metrics of pods and containers: name, further labels, and the expected figure without `base`.
const OF_BOTH: &[(&str, &[&str], u64)] = &[
    ("cpu_usage_seconds_total", &["total"], 1),
    ("cpu_user_seconds_total", &[], 2),
    ("cpu_system_seconds_total", &[], 3),
    ("cpu_cfs_periods_total", &[], 4),
    ("cpu_cfs_throttled_periods_total", &[], 5),
    ("cpu_cfs_throttled_seconds_total", &[], 6),
    ("spec_cpu_quota", &[], 7),
    ("spec_cpu_period", &[], 8),
    ("spec_cpu_shares", &[], 9),
    ("pressure_cpu_waiting_seconds_total", &[], 10),
    ("pressure_cpu_stalled_seconds_total", &[], 11),
    ("memory_usage_bytes", &[], 12),
    ("memory_working_set_bytes", &[], 13),
    ("memory_rss", &[], 14),
    ("memory_cache", &[], 15),
    ("memory_total_active_file_bytes", &[], 16),
    ("memory_total_inactive_file_bytes", &[], 17),
    ("memory_mapped_file", &[], 18),
    ("memory_kernel_usage", &[], 19),
    ("memory_max_usage_bytes", &[], 20),
    ("memory_failcnt", &[], 21),
    ("memory_failures_total", &["pgfault", "hierarchy"], 23),
    ("memory_failures_total", &["pgmajfault", "hierarchy"], 24),
    ("memory_failures_total", &["pgfault", "container"], 25),
    ("memory_failures_total", &["pgmajfault", "container"], 26),
    ("spec_memory_limit_bytes", &[], 27),
    ("spec_memory_reservation_limit_bytes", &[], 28),
    ("pressure_memory_waiting_seconds_total", &[], 29),
    ("pressure_memory_stalled_seconds_total", &[], 30),
    ("memory_swap", &[], 31),
    ("pressure_io_waiting_seconds_total", &[], 32),
    ("pressure_io_stalled_seconds_total", &[], 33),
    ("fs_reads_bytes_total", &["/dev/sda"], 1024),
    ("fs_writes_bytes_total", &["/dev/sda"], 2048),
    ("fs_reads_total", &["/dev/sda"], 35),
    ("fs_writes_total", &["/dev/sda"], 36),
    ("blkio_device_usage_total", &["/dev/sda", "8", "0", "Read"], 1024),
    ("blkio_device_usage_total", &["/dev/sda", "8", "0", "Write"], 2048),
    ("blkio_device_usage_total", &["/dev/sda", "8", "0", "Discard"], 34),
    ("threads", &[], 38),
    ("threads_max", &[], 39),
    ("hugetlb_usage_bytes", &["2MB"], 40),
    ("hugetlb_max_usage_bytes", &["2MB"], 41),
];
/// Metrics of containers: name, further labels, and the expected figure.
const OF_CONTAINERS: &[(&str, &[&str], u64)] = &[
    ("memory_failures_total", &["pgfault", "container"], 100_025),
    ("oom_events_total", &[], 100_022),
    ("spec_memory_swap_limit_bytes", &[], 0),
    ("fs_usage_bytes", &["/dev/sda1"], 60),
    ("fs_limit_bytes", &["/dev/sda1"], 70),
    ("fs_inodes_total", &["/dev/sda1"], 71),
    ("fs_inodes_free", &["/dev/sda1"], 72),
    ("fs_reads_total", &["9:1"], 0),
    ("processes", &[], 50),
    ("file_descriptors", &[], 52),
    ("sockets", &[], 53),
    ("ulimits_soft", &["max_open_files"], 55),
    ("last_seen", &[], 9),
    ("start_time_seconds", &[], 200),
];
/// Metrics of pods: name, further labels, and the expected figure.
const OF_PODS: &[(&str, &[&str], u64)] = &[
    ("network_receive_bytes_total", &["eth0"], 400),
    ("network_receive_packets_total", &["eth0"], 401),
    ("network_receive_errors_total", &["eth0"], 402),
    ("network_receive_packets_dropped_total", &["eth0"], 403),
    ("network_transmit_bytes_total", &["eth0"], 404),
    ("network_transmit_packets_total", &["eth0"], 405),
    ("network_transmit_errors_total", &["eth0"], 406),
    ("network_transmit_packets_dropped_total", &["eth0"], 407),
    ("network_transmit_bytes_total", &["net1"], 604),
    ("start_time_seconds", &[], 100),
];
