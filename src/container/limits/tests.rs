//! Which values the status shows, given the requested limits and the kernel's values.

use std::{collections::BTreeMap, fs};

use super::{cgroup::ContainerCgroup, reported::reported};
use crate::{
    checkpoint::directory::Checkpoints,
    container::saved_changes::SavedChanges,
    host::cgroup::{
        Cgroups,
        limits::{Limits, UNLIMITED},
        weight::CpuWeight,
    },
    model::{
        id::SandboxId,
        resources::{HugepageLimit, PodResources, Resources},
    },
    translate::limits::cgroup_files::{CgroupFile, CgroupLimit, IfMissing},
};

fn requested() -> Resources {
    Resources {
        cpu_period: 100_000,
        cpu_quota: 50_000,
        cpu_shares: 512,
        memory_limit: 100_000_001,
        memory_swap_limit: 100_000_001,
        cpuset_cpus: "0,1,2".to_owned(),
        ..Resources::default()
    }
}

#[allow(clippy::needless_update, reason = "a limit that is added later is not set here")]
fn kernel() -> Limits {
    Limits {
        cpu_period: Some(100_000),
        cpu_quota: Some(50_000),
        cpu_weight: Some(CpuWeight::Shares(512)),
        memory: Some(99_999_744),
        memory_and_swap: Some(99_999_744),
        cpus: Some("0-2".to_owned()),
        mems: Some("0".to_owned()),
        oom_score_adj: Some(0),
        ..Limits::default()
    }
}

#[test]
fn a_limit_that_the_kernel_rounds_is_shown_as_requested() {
    assert_eq!(reported(&requested(), &kernel(), &[], |_| None), requested());
}

#[test]
fn a_limit_changed_by_others_is_shown_as_it_is() {
    let changed = Limits {
        cpu_quota: Some(UNLIMITED),
        cpu_weight: Some(CpuWeight::Shares(2)),
        memory: Some(64 << 20),
        memory_and_swap: Some(UNLIMITED),
        cpus: Some("0-1".to_owned()),
        oom_score_adj: Some(-5),
        ..kernel()
    };
    let shown = reported(&requested(), &changed, &[], |_| None);
    assert_eq!((shown.cpu_quota, shown.cpu_period, shown.cpu_shares), (-1, 100_000, 2));
    assert_eq!((shown.memory_limit, shown.memory_swap_limit), (64 << 20, -1));
    assert_eq!((shown.cpuset_cpus.as_str(), shown.cpuset_mems.as_str()), ("0-1", ""));
    assert_eq!(shown.oom_score_adj, -5);
}

#[test]
fn no_limit_is_reported_without_a_request() {
    let kernel = Limits {
        cpu_period: Some(100_000),
        cpu_quota: Some(UNLIMITED),
        cpu_weight: Some(CpuWeight::Weight(100)),
        memory: Some(UNLIMITED),
        memory_and_swap: Some(UNLIMITED),
        ..Limits::default()
    };
    let nothing = Resources::default();
    let usual = Resources { cpu_shares: 1024, ..Resources::default() };
    assert_eq!(reported(&nothing, &kernel, &[], |_| None), usual);
    let lifted = Resources { cpu_quota: -1, memory_limit: -1, memory_swap_limit: -1, ..nothing };
    let told = reported(&lifted, &kernel, &[], |_| None);
    assert_eq!((told.cpu_quota, told.memory_limit, told.memory_swap_limit), (-1, 0, -1));
}

/// Each row has the requested shares, the weight in the kernel, and the shares in the status, for both
/// formulas with which OCI runtimes compute a weight.
#[test]
fn shares_are_read_back_from_the_weights_made_of_them() {
    for (asked, weight, told) in [
        (2, 1, 2),
        (100, 4, 100),
        (100, 17, 100),
        (512, 20, 512),
        (512, 59, 512),
        (1024, 39, 1024),
        (1024, 100, 1024),
        (262_144, 10_000, 262_144),
        (0, 100, 1024),
        (0, 39, 998),
        (512, 10_000, 262_144),
        (512, 1, 2),
    ] {
        let kernel = Limits { cpu_weight: Some(CpuWeight::Weight(weight)), ..Limits::default() };
        let requested = Resources { cpu_shares: asked, ..Resources::default() };
        assert_eq!(
            reported(&requested, &kernel, &[], |_| None).cpu_shares,
            told,
            "{asked} {weight}"
        );
    }
}

#[test]
fn extra_metrics_come_from_their_files() {
    let pages = |size: &str, limit: u64| HugepageLimit { page_size: size.to_owned(), limit };
    let setting = |limit: CgroupLimit, file: &str, value: &str| CgroupFile {
        limit,
        controller: String::new(),
        file: file.to_owned(),
        value: value.to_owned(),
        if_missing: IfMissing::Fail,
        properties: Vec::new(),
    };
    let key = |key: &str, value: &str| setting(CgroupLimit::Unified(key.to_owned()), key, value);
    let huge =
        |size: &str, value: &str| setting(CgroupLimit::Hugepages(size.to_owned()), size, value);
    let settings = [
        huge("2MB", "5000000"),
        huge("1GB", "0"),
        huge("64KB", "65536"),
        huge("16GB", "1"),
        key("memory.high", "1000000"),
        key("memory.low", "max"),
        key("memory.oom.group", "1"),
        key("io.weight", "50"),
    ];
    let files = BTreeMap::from([
        ("2MB", "4194304"),
        ("64KB", "0"),
        ("memory.high", "999424"),
        ("memory.low", "4096"),
        ("io.weight", "default 50"),
    ]);
    let unified = ["memory.high", "memory.low", "memory.oom.group", "io.weight", "memory.swap.max"];
    let unified = unified.map(|key| (key.to_owned(), "asked".to_owned()));
    let requested = Resources { unified: unified.into(), ..Resources::default() };
    let told = reported(&requested, &Limits::default(), &settings, |setting| {
        files.get(setting.file.as_str()).map(|text| (*text).to_owned())
    });
    // The status leaves out a limit of huge pages that the kernel does not have, except a requested limit of 0.
    assert_eq!(told.hugepage_limits, [pages("2MB", 5_000_000), pages("1GB", 0), pages("64KB", 0)]);
    let expected = [
        ("io.weight", "default 50"),
        ("memory.high", "1000000"),
        ("memory.low", "4096"),
        // The engine sets `memory.swap.max`, not dockbridge.
        ("memory.swap.max", "asked"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(told.unified, BTreeMap::from(expected));
}

/// Each row has the cgroup file, the requested value, the kernel's value, and the value in the status.
#[test]
fn only_bytes_of_memory_are_rounded() {
    for (file, asked, held, told) in [
        ("memory.oom.group", "1", "0", "0"),
        ("memory.low", "50000", "0", "0"),
        ("memory.zswap.writeback", "1", "0", "0"),
        ("memory.low", "50000", "49152", "50000"),
        ("memory.low", "200000", "131072", "131072"),
        ("pids.max", "5000", "4096", "4096"),
    ] {
        let setting = CgroupFile::unified(file, asked);
        assert_eq!(super::reported::text(&setting, held.to_owned()), told, "{file} {asked} {held}");
    }
}

/// If saving a change fails, the caller repeats the call. The repeated call must not succeed as if the change
/// were saved.
#[tokio::test]
async fn a_change_that_cannot_be_saved_does_not_count() {
    let state = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::open(state.path()).unwrap();
    let saved = SavedChanges::load(checkpoints).await;
    let in_the_way = state.path().join("resized.json");
    std::fs::create_dir(&in_the_way).unwrap();
    let pod = SandboxId::try_from("a".repeat(64)).unwrap();
    let key = PodResources { overhead: Some(Resources::default()), resources: None };
    for _ in 0..2 {
        saved.put_pod_limits(&pod, key.clone()).await.unwrap_err();
        assert_eq!(saved.pod(&pod), PodResources::default());
    }
    std::fs::remove_dir(&in_the_way).unwrap();
    saved.put_pod_limits(&pod, key.clone()).await.unwrap();
    assert_eq!(saved.pod(&pod), key);
}

/// The cache stores the path of a cgroup, but never the value of a limit.
#[test]
fn a_cached_cgroup_has_current_values() {
    let root = tempfile::tempdir().unwrap();
    let (proc, point) = (root.path().join("proc"), root.path().join("cg"));
    let group = point.join(ID);
    for folder in [proc.join("self"), proc.join("42"), group.clone()] {
        fs::create_dir_all(folder).unwrap();
    }
    let table = format!("33 31 0:29 / {} rw - cgroup2 cgroup2 rw\n", point.display());
    fs::write(proc.join("self/mountinfo"), table).unwrap();
    fs::write(proc.join("42/cgroup"), format!("0::/{ID}\n")).unwrap();
    let limit = |bytes: i64| fs::write(group.join("memory.max"), bytes.to_string()).unwrap();
    let cgroups = Cgroups::from_proc(&proc);
    assert!(ContainerCgroup::cached(&cgroups, 42, ID).is_none(), "nobody has looked");
    ContainerCgroup::of(&cgroups, 42, ID).unwrap();
    assert!(ContainerCgroup::cached(&cgroups, 43, ID).is_none(), "started anew");
    let told = || {
        let requested = Resources { memory_limit: 1 << 30, ..Resources::default() };
        let shown = ContainerCgroup::cached(&cgroups, 42, ID)?.shown(&requested, &[])?;
        Some(shown.memory_limit)
    };
    for bytes in [64 << 20, 32 << 20] {
        limit(bytes);
        assert_eq!(told(), Some(bytes));
    }
    fs::remove_dir_all(&group).unwrap();
    assert_eq!(told(), None, "the container has ended");
    cgroups.retain(|_| false);
    assert!(ContainerCgroup::cached(&cgroups, 42, ID).is_none());
}

const ID: &str = "4f5c1e9d8b7a6f5e4d3c2b1a09f8e7d6c5b4a3928170f6e5d4c3b2a190817263";
