//! Tests of the readers of the kernel's files, with texts as kernels write them, and with texts that no kernel writes.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{cpu, interfaces, io, memory, partitions, processes, text};
use crate::host::mounts::upper_directories;
use crate::model::{
    stats::{CpuReading, DeviceReading, Limit, MemoryReading, Stall, TrafficReading},
    time::Nanos,
};

#[test]
fn counts_are_read_and_max_is_no_limit() {
    for (written, count, limit) in [
        ("0", Some(0), Some(Limit::At(0))),
        ("67108864\n", Some(67_108_864), Some(Limit::At(67_108_864))),
        ("max\n", Some(u64::MAX), Some(Limit::Unlimited)),
        ("9223372036854771712", Some(9_223_372_036_854_771_712), Some(Limit::Unlimited)),
        ("99999999999999999999999", Some(u64::MAX), Some(Limit::Unlimited)),
        ("-1\n", None, Some(Limit::Unlimited)),
        ("-2", None, None),
        ("", None, None),
        ("12 13", None, None),
    ] {
        assert_eq!((text::count(written), text::limit(written)), (count, limit), "{written:?}");
    }
}

#[test]
fn processor_time_of_version_2_is_read() {
    let text = "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\nnice_usec 7\nnr_periods 10\n\
                nr_throttled 3\nthrottled_usec 40\nnr_bursts 0\n";
    let wanted = CpuReading {
        usage: 2_500_000,
        user: Some(2_000_000),
        system: Some(500_000),
        periods: Some(10),
        throttled_periods: Some(3),
        throttled: Some(40_000),
        ..CpuReading::default()
    };
    assert_eq!(cpu::v2(text), Some(wanted));
    assert_eq!(cpu::v2("user_usec 3\n"), None, "nothing without the usage");
}

#[test]
fn processor_time_of_version_1_is_read() {
    let mut reading = CpuReading::default();
    cpu::modes("user 150\nsystem 2\n", &mut reading);
    cpu::throttling("nr_periods 8\nnr_throttled 2\nthrottled_time 123456\n", &mut reading);
    assert_eq!((reading.user, reading.system), (Some(1_500_000_000), Some(20_000_000)));
    assert_eq!((reading.periods, reading.throttled_periods), (Some(8), Some(2)));
    assert_eq!(reading.throttled, Some(123_456));
}

#[test]
fn memory_of_version_1_counts_what_is_below() {
    let text = "cache 1\nrss 2\ninactive_file 3\npgfault 6\ntotal_cache 10\ntotal_rss 20\n\
                total_inactive_file 30\ntotal_active_file 40\ntotal_mapped_file 50\n\
                total_pgfault 60\ntotal_pgmajfault 70\ntotal_swap 80\n";
    let stat = memory::v1(text);
    let wanted = MemoryReading {
        cache: Some(10),
        rss: Some(20),
        inactive_file: Some(30),
        active_file: Some(40),
        mapped_file: Some(50),
        faults: Some(60),
        major_faults: Some(70),
        own_faults: Some(6),
        ..MemoryReading::default()
    };
    assert_eq!((stat.reading, stat.swap), (wanted, Some(80)));
    assert_eq!(memory::oom_control("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), Some(4));
    assert_eq!(memory::oom_control("oom_kill_disable 0\nunder_oom 0\n"), None);
}

#[test]
fn memory_of_version_2_is_read() {
    let newer = "anon 1\nfile 2\nkernel 3\nkernel_stack 100\nslab 200\nfile_mapped 4\n\
                 inactive_file 5\nactive_file 6\npgfault 7\npgmajfault 8\n";
    let stat = memory::v2(newer).reading;
    assert_eq!((stat.rss, stat.cache, stat.kernel), (Some(1), Some(2), Some(3)));
    assert_eq!(
        (stat.mapped_file, stat.inactive_file, stat.active_file),
        (Some(4), Some(5), Some(6))
    );
    assert_eq!((stat.faults, stat.major_faults), (Some(7), Some(8)));
    let older = memory::v2("anon 1\nkernel_stack 100\nslab 200\n").reading;
    assert_eq!(older.kernel, Some(300), "before 5.18 there is no sum");
    let mut reading = MemoryReading::default();
    memory::events("low 0\nhigh 9\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n", &mut reading);
    assert_eq!((reading.limit_hits, reading.oom_kills), (Some(2), Some(1)));
}

#[test]
fn pressure_is_read_and_odd_figures_are_zero() {
    let whole = "some avg10=1.50 avg60=0.25 avg300=0.00 total=12345\n\
                 full avg10=0.50 avg60=0.00 avg300=0.00 total=345\n";
    let read = text::pressure(whole).unwrap();
    assert_eq!(read.some, Stall { total: 12_345, avg10: 1.5, avg60: 0.25, avg300: 0.0 });
    assert_eq!(read.full.total, 345);
    let alone = text::pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").unwrap();
    assert_eq!((alone.some.total, alone.full), (7, Stall::default()));
    let odd = text::pressure("some avg10=NaN avg60=inf total=x\n").unwrap();
    assert_eq!(odd.some, Stall::default());
    assert_eq!(text::pressure(""), None);
}

#[test]
fn device_counters_of_both_cgroup_versions_are_read() {
    let v2 = "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6 cost.usage=7\n\
                   253:1 wbytes=8\nweird\n:0 rbytes=1\n8:x rbytes=1\n";
    let whole = DeviceReading {
        major: 8,
        minor: 0,
        read_bytes: 1,
        written_bytes: 2,
        discarded_bytes: 5,
        reads: 3,
        writes: 4,
    };
    let part = DeviceReading { major: 253, minor: 1, written_bytes: 8, ..DeviceReading::default() };
    assert_eq!(io::v2(v2), [whole, part]);

    let mut v1 = io::Devices::default();
    let of = |unit: [u32; 3]| {
        let [read, write, discard] = unit;
        format!(
            "8:0 Read {read}\n8:0 Write {write}\n8:0 Sync 99\n8:0 Async 0\n8:0 Discard {discard}\n\
             8:0 Total 99\nTotal 99\n"
        )
    };
    io::bytes(&of([1, 2, 5]), &mut v1);
    io::requests(&of([3, 4, 6]), &mut v1);
    assert_eq!(v1.into_readings(), [whole]);
}

#[test]
fn interfaces_are_read_from_a_namespace() {
    let text = "Inter-|   Receive                            |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n    \
        lo: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n\
        eth0:100 200 1 2 0 0 0 9 300 400 3 4 0 0 0 0\n\
        odd:1:5 5 5 5 0 0 0 0 6 6 6 6 0 0 0 0\n\
        half: 1 2 3\n";
    let read = interfaces::interfaces(text);
    let names: Vec<&str> = read.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["lo", "eth0", "odd:1"]);
    let network = interfaces::network(text, "eth0", Nanos(9)).unwrap();
    assert_eq!(network.default.name, "eth0");
    let received = TrafficReading { bytes: 100, packets: 200, errors: 1, dropped: 2 };
    assert_eq!(network.default.received, received);
    let sent = TrafficReading { bytes: 300, packets: 400, errors: 3, dropped: 4 };
    assert_eq!(network.default.sent, sent);
    assert_eq!((network.others.len(), network.at), (2, Nanos(9)));
    let other = interfaces::network(text, "net1", Nanos(9)).unwrap();
    assert_eq!(other.default.name, "eth0", "whatever is no loopback");
    let loopback = "    lo: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n";
    assert_eq!(interfaces::network(loopback, "eth0", Nanos(9)), None);
}

#[test]
fn processes_are_counted_with_their_limits() {
    assert_eq!(processes::threads("Name:\tsh\nThreads:\t12\nSigQ:\t0/1\n"), Some(12));
    let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                Max cpu time              unlimited            unlimited            seconds   \n\
                Max open files            1024                 524288               files     \n\
                Max nice priority         0                    0                    \n\
                Max something new         1                    2                    x         \n";
    assert_eq!(processes::open_files_limit(text), Some(1024));
    let unlimited = text.replace("1024  ", "unlimited");
    assert_eq!(processes::open_files_limit(&unlimited), Some(u64::MAX));
    assert_eq!(processes::open_files_limit("Max open files\n"), None);
}

#[test]
fn devices_are_named_as_the_kernel_names_them() {
    let text = "major minor  #blocks  name\n\n   8        0  500107608 sda\n \
                253        1       1000 dm-1\n  72        0       1000 cciss!c0d0\n8 x 1 sdb\n8 1 5\n";
    let wanted = [((8, 0), "/dev/sda"), ((72, 0), "/dev/cciss/c0d0"), ((253, 1), "/dev/dm-1")];
    let wanted = wanted.map(|(numbers, name)| (numbers, name.to_owned()));
    assert_eq!(partitions::names(text), wanted.into());
}

#[test]
fn upper_directories_are_those_of_overlays_below_the_engines_directory() {
    let line = |point: &str, rest: &str| format!("1 2 0:3 / {point} rw shared:4 - {rest}\n");
    let overlay =
        |upper: &str| format!("overlay overlay rw,lowerdir=/l/A:/l/B,upperdir={upper},workdir=/w");
    let table = [
        line("/", &overlay("/host")),
        line("/docker", "ext4 /dev/sda rw"),
        line("/docker/rootfs/overlayfs/one", &overlay("/s/1/fs")),
        line("/docker/rootfs/overlayfs/one", &overlay("/etc")),
        line("/docker/rootfs/overlayfs/two", "overlay overlay rw,upperdir=/a\\040b/fs"),
        line("/docker/rootfs/overlayfs/read-only", "overlay overlay ro,lowerdir=/l/A:/l/B"),
        line("/docker/rootfs/overlayfs/relative", &overlay("s/1/fs")),
        line("/docker/rootfs/overlayfs/other", "btrfs /dev/sda rw,upperdir=/a"),
        line("/docker/rootfs/overlayfs/short", "overlay"),
        line("/elsewhere/three", &overlay("/etc")),
        line("/docker2/four", &overlay("/etc")),
        "rubbish\n".to_owned(),
    ];
    let found = upper_directories(&table.concat(), Path::new("/docker"));
    let wanted = [("one", "/s/1/fs"), ("two", "/a b/fs")];
    assert_eq!(found, wanted.map(|(id, upper)| (id.to_owned(), PathBuf::from(upper))).into());
}

/// Random lines with words that the readers know, numbers that may exceed 64 bits, and other text.
fn any_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z_]{1,12}",
        "[0-9]{1,30}",
        Just("total_inactive_file".to_owned()),
        Just("usage_usec".to_owned()),
        Just("some".to_owned()),
        "(avg10|total|rbytes)=[-0-9.a-z]{0,25}",
        "[0-9]{1,12}:[0-9]{1,12}",
        "(eth0|lo|Total|Max open files|Threads|oom_kill):?",
        any::<String>(),
    ];
    let line = prop::collection::vec(word, 0..20).prop_map(|words| words.join(" "));
    prop::collection::vec(line, 0..10).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any_text()) {
        let mut cpu_reading = CpuReading::default();
        cpu::modes(&text, &mut cpu_reading);
        cpu::throttling(&text, &mut cpu_reading);
        let _ = cpu::v2(&text);
        let _ = memory::v1(&text);
        let _ = memory::v2(&text);
        memory::events(&text, &mut MemoryReading::default());
        let _ = memory::oom_control(&text);
        let _ = io::v2(&text);
        let mut devices = io::Devices::default();
        io::bytes(&text, &mut devices);
        io::requests(&text, &mut devices);
        let _ = devices.into_readings();
        let _ = interfaces::network(&text, "eth0", Nanos(1));
        let _ = processes::threads(&text);
        let _ = processes::open_files_limit(&text);
        let _ = partitions::names(&text);
        let _ = upper_directories(&text, Path::new("/"));
        if let Some(read) = text::pressure(&text) {
            prop_assert!(read.some.avg10.is_finite() && read.full.avg300.is_finite());
        }
    }
}
