//! Tests of merging answers of plugins: conflicts, replacements, removals, the container that the next plugin
//! receives, and the merged answer.

use std::collections::BTreeMap;

use serde_json::json;

use super::{merge::Merge, owners::Owners, updates::Updates};
use crate::{
    model::spec_edit::SpecEdit,
    translate::{
        limits::nri::{Claim as _, read as limits_of},
        parse::adjustment::adjustment,
    },
    wire::nri,
};

type Adjust = nri::ContainerAdjustment;
type Linux = nri::LinuxContainerAdjustment;
type Limits = nri::LinuxResources;

const ID: &str = "c-1";

fn answer(adjust: Adjust) -> nri::CreateContainerResponse {
    nri::CreateContainerResponse { adjust: Some(adjust), ..Default::default() }
}

fn linux(linux: Linux) -> Adjust {
    Adjust { linux: Some(linux), ..Adjust::default() }
}

fn limits(resources: Limits) -> Adjust {
    linux(Linux { resources: Some(resources), ..Linux::default() })
}

fn memory(limit: i64) -> Limits {
    let limit = Some(nri::OptionalInt64 { value: limit });
    Limits { memory: Some(nri::LinuxMemory { limit, ..Default::default() }), ..Limits::default() }
}

fn container() -> nri::Container {
    nri::Container {
        id: ID.to_owned(),
        annotations: [("old".to_owned(), "1".to_owned())].into(),
        args: vec!["sleep".to_owned()],
        env: vec!["PATH=/bin".to_owned(), "A=0".to_owned()],
        mounts: vec![mount("/old", "/host")],
        ..Default::default()
    }
}

fn mount(destination: &str, source: &str) -> nri::Mount {
    nri::Mount {
        destination: destination.to_owned(),
        source: source.to_owned(),
        r#type: "bind".to_owned(),
        options: vec!["rbind".to_owned()],
    }
}

fn pair(key: &str, value: &str) -> nri::KeyValue {
    nri::KeyValue { key: key.to_owned(), value: value.to_owned() }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Adjustments that each set only one field, with the field's name.
fn fields() -> Vec<(&'static str, Adjust)> {
    [plain_fields(), keyed_linux_fields(), whole_linux_fields(), limit_fields()].concat()
}

fn one(value: &str) -> BTreeMap<String, String> {
    [("k".to_owned(), value.to_owned())].into()
}

fn text(value: &str) -> Option<nri::OptionalString> {
    Some(nri::OptionalString { value: value.to_owned() })
}

fn yes() -> Option<nri::OptionalBool> {
    Some(nri::OptionalBool { value: true })
}

fn plain_fields() -> Vec<(&'static str, Adjust)> {
    vec![
        ("annotations[k]", Adjust { annotations: one("v"), ..Adjust::default() }),
        ("mounts[/m]", Adjust { mounts: vec![mount("/m", "/s")], ..Adjust::default() }),
        ("env[E]", Adjust { env: vec![pair("E", "1")], ..Adjust::default() }),
        ("args", Adjust { args: owned(&["x"]), ..Adjust::default() }),
        (
            "rlimits[RLIMIT_AS]",
            Adjust {
                rlimits: vec![nri::PosixRlimit {
                    r#type: "RLIMIT_AS".to_owned(),
                    hard: 2,
                    soft: 1,
                }],
                ..Adjust::default()
            },
        ),
        (
            "CDI_devices[v/c=d]",
            Adjust {
                cdi_devices: vec![nri::CdiDevice { name: "v/c=d".to_owned() }],
                ..Adjust::default()
            },
        ),
    ]
}

fn keyed_linux_fields() -> Vec<(&'static str, Adjust)> {
    vec![
        (
            "linux.devices[/dev/d]",
            linux(Linux {
                devices: vec![nri::LinuxDevice { path: "/dev/d".to_owned(), ..Default::default() }],
                ..Linux::default()
            }),
        ),
        (
            "linux.namespaces[ipc]",
            linux(Linux {
                namespaces: vec![nri::LinuxNamespace {
                    r#type: "ipc".to_owned(),
                    ..Default::default()
                }],
                ..Linux::default()
            }),
        ),
        ("linux.sysctl[k]", linux(Linux { sysctl: one("v"), ..Linux::default() })),
        (
            "linux.net_devices[eth5]",
            linux(Linux {
                net_devices: [("eth5".to_owned(), nri::LinuxNetDevice { name: "n".to_owned() })]
                    .into(),
                ..Linux::default()
            }),
        ),
    ]
}

fn whole_linux_fields() -> Vec<(&'static str, Adjust)> {
    let rdt = |rdt| linux(Linux { rdt: Some(rdt), ..Linux::default() });
    vec![
        ("linux.cgroups_path", linux(Linux { cgroups_path: "/p".to_owned(), ..Linux::default() })),
        (
            "linux.oom_score_adj",
            linux(Linux { oom_score_adj: Some(nri::OptionalInt { value: 7 }), ..Linux::default() }),
        ),
        (
            "linux.io_priority",
            linux(Linux {
                io_priority: Some(nri::LinuxIoPriority { class: 2, priority: 3 }),
                ..Linux::default()
            }),
        ),
        (
            "linux.scheduler",
            linux(Linux {
                scheduler: Some(nri::LinuxScheduler { policy: 4, nice: 5, ..Default::default() }),
                ..Linux::default()
            }),
        ),
        (
            "linux.seccomp_policy",
            linux(Linux {
                seccomp_policy: Some(nri::LinuxSeccomp {
                    default_action: "SCMP_ACT_ALLOW".to_owned(),
                    default_errno: Some(nri::OptionalUInt32 { value: 38 }),
                    ..Default::default()
                }),
                ..Linux::default()
            }),
        ),
        (
            "linux.memory_policy",
            linux(Linux {
                memory_policy: Some(nri::LinuxMemoryPolicy {
                    mode: 2,
                    nodes: "0".to_owned(),
                    flags: vec![0],
                }),
                ..Linux::default()
            }),
        ),
        ("linux.rdt.clos_id", rdt(nri::LinuxRdt { clos_id: text("c"), ..Default::default() })),
        (
            "linux.rdt.enable_monitoring",
            rdt(nri::LinuxRdt { enable_monitoring: yes(), ..Default::default() }),
        ),
        (
            "linux.rdt.schemata",
            rdt(nri::LinuxRdt {
                schemata: Some(nri::OptionalRepeatedString { value: owned(&["L3:0=f"]) }),
                ..Default::default()
            }),
        ),
    ]
}

fn limit_fields() -> Vec<(&'static str, Adjust)> {
    let signed = || Some(nri::OptionalInt64 { value: 1 });
    let unsigned = || Some(nri::OptionalUInt64 { value: 1 });
    let memory = |memory| limits(Limits { memory: Some(memory), ..Limits::default() });
    let cpu = |cpu| limits(Limits { cpu: Some(cpu), ..Limits::default() });
    vec![
        (
            "linux.resources.memory.limit",
            memory(nri::LinuxMemory { limit: signed(), ..Default::default() }),
        ),
        (
            "linux.resources.memory.reservation",
            memory(nri::LinuxMemory { reservation: signed(), ..Default::default() }),
        ),
        (
            "linux.resources.memory.swappiness",
            memory(nri::LinuxMemory { swappiness: unsigned(), ..Default::default() }),
        ),
        (
            "linux.resources.memory.disable_oom_killer",
            memory(nri::LinuxMemory { disable_oom_killer: yes(), ..Default::default() }),
        ),
        (
            "linux.resources.cpu.shares",
            cpu(nri::LinuxCpu { shares: unsigned(), ..Default::default() }),
        ),
        (
            "linux.resources.cpu.realtime_runtime",
            cpu(nri::LinuxCpu { realtime_runtime: signed(), ..Default::default() }),
        ),
        (
            "linux.resources.cpu.cpus",
            cpu(nri::LinuxCpu { cpus: "0".to_owned(), ..Default::default() }),
        ),
        (
            "linux.resources.pids",
            limits(Limits { pids: Some(nri::LinuxPids { limit: 9 }), ..Limits::default() }),
        ),
        ("linux.resources.unified[k]", limits(Limits { unified: one("v"), ..Limits::default() })),
        (
            "linux.resources.hugepage_limits[2MB]",
            limits(Limits {
                hugepage_limits: vec![nri::HugepageLimit { page_size: "2MB".to_owned(), limit: 0 }],
                ..Limits::default()
            }),
        ),
        (
            "linux.resources.rdt_class",
            limits(Limits { rdt_class: text("gold"), ..Limits::default() }),
        ),
    ]
}

#[test]
fn what_two_plugins_set_is_a_conflict() {
    for (field, adjust) in fields() {
        let mut merge = Merge::new(container());
        merge.add("10-one", &answer(adjust.clone())).unwrap();
        assert_eq!(merge.owners.of(ID), [(field.to_owned(), "10-one".to_owned())].into());
        let conflict = merge.add("20-two", &answer(adjust)).unwrap_err();
        let wanted = format!("NRI plugins 10-one and 20-two both change {field} of container {ID}");
        assert_eq!(conflict.to_string(), wanted);
    }
}

#[test]
fn every_field_has_a_name() {
    let mut owners = Owners::default();
    let numbers = 1..=i32::from(u16::MAX);
    let fields: Vec<_> = numbers.filter_map(|number| nri::Field::try_from(number).ok()).collect();
    for field in &fields {
        owners.claims(ID, "10-one").claim(*field, "").unwrap();
    }
    let names = owners.of(ID);
    assert!(names.len() == fields.len() && !names.contains_key("?"), "{names:?}");
}

#[test]
fn what_several_plugins_set_is_there_whole() {
    let mut merge = Merge::new(container());
    let mut whole = Adjust::default();
    for (at, (_, adjust)) in fields().into_iter().enumerate() {
        merge.add(&format!("{at:02}-p"), &answer(adjust.clone())).unwrap();
        // Each field occurs once, so the expected answer is the result of protobuf's own merge.
        prost::Message::merge(&mut whole, prost::Message::encode_to_vec(&adjust).as_slice())
            .unwrap();
    }
    assert_eq!(merge.adjustment(), whole);
    assert_eq!(merge.owners.of(ID).len(), fields().len());
}

#[test]
fn a_plugin_may_replace_what_it_removes_of_another() {
    let marked = |key: &str| format!("-{key}");
    let first = Adjust {
        annotations: [("a".to_owned(), "1".to_owned())].into(),
        env: vec![pair("A", "1"), pair("B", "1")],
        args: owned(&["one"]),
        mounts: vec![mount("/m", "/one")],
        ..Adjust::default()
    };
    let second = Adjust {
        annotations: [(marked("a"), String::new()), (marked("old"), String::new())].into(),
        env: vec![pair("-A", ""), pair("A", "2"), pair("-B", "")],
        args: owned(&["", "two"]),
        mounts: vec![mount("-/m", ""), mount("/m", "/two"), mount("-/old", "")],
        ..Adjust::default()
    };
    let mut merge = Merge::new(container());
    merge.add("10-one", &answer(first)).unwrap();
    merge.add("20-two", &answer(second.clone())).unwrap();
    let seen = merge.container();
    assert!(seen.annotations.is_empty());
    assert_eq!(seen.env, ["PATH=/bin", "A=2"]);
    assert_eq!(seen.args, ["two"]);
    assert_eq!(seen.mounts, [mount("/m", "/two")]);
    let merged = adjustment(&merge.adjustment(), merge.owners.of(ID)).unwrap();
    let bind = json!({"type": "bind", "source": "/two", "options": ["rbind"]});
    let wanted = [
        SpecEdit::set(&["process", "args"], json!(["two"])),
        SpecEdit::remove(&["process", "env", "B"]),
        SpecEdit::set(&["process", "env", "A"], "2"),
        SpecEdit::remove(&["annotations", "a"]),
        SpecEdit::remove(&["annotations", "old"]),
        SpecEdit::remove(&["mounts", "/old"]),
        SpecEdit::set(&["mounts", "/m"], bind),
    ];
    assert_eq!(merged.edits, wanted);
    // A third plugin must not set what the second has removed.
    let third = Adjust { env: vec![pair("B", "3")], ..Adjust::default() };
    let conflict = merge.add("30-three", &answer(third)).unwrap_err();
    let conflict = conflict.to_string();
    assert!(conflict.starts_with("NRI plugins 20-two and 30-three both change "), "{conflict}");
    merge.add("40-four", &answer(second)).unwrap();
}

#[test]
fn hooks_of_all_plugins_run() {
    let hook = |path: &str| nri::Hook { path: path.to_owned(), ..Default::default() };
    let hooks = |path: &str| Adjust {
        hooks: Some(nri::Hooks { poststop: vec![hook(path)], ..Default::default() }),
        ..Adjust::default()
    };
    let mut merge = Merge::new(container());
    merge.add("10-one", &answer(hooks("/one"))).unwrap();
    merge.add("20-two", &answer(hooks("/two"))).unwrap();
    assert_eq!(merge.owners.of(ID)["hooks"], "10-one,20-two");
    let merged = adjustment(&merge.adjustment(), Default::default()).unwrap();
    let hook = |path: &str| json!({"path": path});
    assert_eq!(merged.edits, [SpecEdit::add(&["hooks", "poststop"], [hook("/one"), hook("/two")])]);
    assert_eq!(merge.container().hooks.unwrap().poststop.len(), 2);
}

#[test]
fn updates_of_other_containers_are_merged_and_conflict_by_field() {
    let update = |id: &str, limit: i64, ignore_failure| nri::ContainerUpdate {
        container_id: id.to_owned(),
        linux: Some(nri::LinuxContainerUpdate { resources: Some(memory(limit)) }),
        ignore_failure,
    };
    let (mut updates, mut owners) = (Updates::default(), Owners::default());
    updates.add(&mut owners, "10-one", &[update("a", 1, false), update("b", 2, false)]).unwrap();
    let before = (updates.clone(), owners.clone());
    updates.add(&mut owners, "20-two", &[update("a", 3, true)]).unwrap();
    assert_eq!((updates.clone(), owners.clone()), before, "it may fail, so it is left out");
    let conflict = updates.add(&mut owners, "20-two", &[update("a", 3, false)]).unwrap_err();
    assert!(conflict.to_string().contains("memory.limit of container a"), "{conflict}");
    assert_eq!(updates.all().len(), 2);
}

#[test]
fn limits_are_updated_and_the_rest_is_edited() {
    let mut merge = Merge::new(container());
    for (_, adjust) in fields() {
        merge.add("10-one", &answer(adjust)).unwrap();
    }
    // `adjustment` refuses the CPU shares and the cgroup key of `fields`, so the test replaces them.
    let mut given = merge.adjustment();
    let resources = given.linux.as_mut().unwrap().resources.as_mut().unwrap();
    let limits = resources.memory.as_mut().unwrap();
    limits.limit = Some(nri::OptionalInt64 { value: 64 << 20 });
    limits.reservation = Some(nri::OptionalInt64 { value: 32 << 20 });
    resources.cpu.as_mut().unwrap().shares = Some(nri::OptionalUInt64 { value: 512 });
    resources.unified = [("memory.high".to_owned(), "1".to_owned())].into();
    let read = adjustment(&given, merge.owners.of(ID)).unwrap();
    let updated = &read.resources;
    assert_eq!((updated.memory_limit, updated.memory_reservation), (64 << 20, 32 << 20));
    assert_eq!((updated.pids_limit, updated.oom_score_adj, updated.cpu_shares), (9, 7, 512));
    assert_eq!(read.cdi_devices, ["v/c=d"]);
    assert!(read.edits.iter().all(SpecEdit::is_for_plugins));
    for (at, value) in [
        (&["annotations", "k"][..], json!("v")),
        (&["mounts", "/m"], json!({"type": "bind", "source": "/s", "options": ["rbind"]})),
        (&["process", "env", "E"], json!("1")),
        (&["process", "args"], json!(["x"])),
        (&["process", "rlimits", "RLIMIT_AS"], json!({"hard": 2, "soft": 1})),
        (&["linux", "devices", "/dev/d"], json!({"major": 0, "minor": 0, "access": "rw"})),
        (&["linux", "namespaces", "ipc"], json!({})),
        (&["linux", "sysctl", "k"], json!("v")),
        (&["linux", "netDevices", "eth5"], json!({"name": "n"})),
        (&["linux", "cgroupsPath"], json!("/p")),
        (&["process", "ioPriority"], json!({"class": "IOPRIO_CLASS_BE", "priority": 3})),
        (&["process", "scheduler"], json!({"policy": "SCHED_BATCH", "nice": 5})),
        (&["linux", "seccomp"], json!({"defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 38})),
        (
            &["linux", "memoryPolicy"],
            json!({"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]}),
        ),
        (&["linux", "intelRdt", "closID"], json!("c")),
        (&["linux", "intelRdt", "schemata"], json!(["L3:0=f"])),
        (&["linux", "intelRdt", "enableMonitoring"], json!(true)),
        (&["linux", "resources", "memory", "swappiness"], json!(1)),
        (&["linux", "resources", "memory", "disableOOMKiller"], json!(true)),
        (&["linux", "resources", "cpu", "realtimeRuntime"], json!(1)),
    ] {
        let wanted = SpecEdit::set(at, value);
        assert!(read.edits.contains(&wanted), "{wanted:?} is not in {:?}", read.edits);
    }
    assert_eq!(read.edits.len(), 20);
}

#[test]
fn what_is_no_limit_is_refused_by_name() {
    let class = Some(nri::OptionalString { value: "gold".to_owned() });
    let given = limits(Limits { blockio_class: class, ..Limits::default() });
    let mut merge = Merge::new(container());
    merge.add("10-one", &answer(given)).unwrap();
    let refused = adjustment(&merge.adjustment(), merge.owners.of(ID)).unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("NRI plugin 10-one: linux.resources.blockio_class: "), "{text}");
    let wrong = nri::LinuxCpu { cpus: "no list".to_owned(), ..Default::default() };
    assert!(limits_of(&Limits { cpu: Some(wrong), ..Limits::default() }).is_err());
    let all = Limits { pids: Some(nri::LinuxPids { limit: 0 }), ..Limits::default() };
    assert_eq!(limits_of(&all).unwrap().pids_limit, -1);
}

#[test]
fn long_answers_are_merged_in_time() {
    const MANY: u32 = 40_000;
    let began = std::time::Instant::now();
    let adjust = Adjust {
        mounts: (0..MANY).map(|at| mount(&format!("/{at}"), "")).collect(),
        env: (0..MANY).map(|at| pair(&at.to_string(), "")).collect(),
        cdi_devices: (0..MANY).map(|at| nri::CdiDevice { name: at.to_string() }).collect(),
        ..limits(Limits {
            hugepage_limits: (0..MANY)
                .map(|at| nri::HugepageLimit { page_size: at.to_string(), limit: 1 })
                .collect(),
            ..Limits::default()
        })
    };
    let mut merge = Merge::new(container());
    merge.add("10-a", &answer(adjust)).unwrap();
    assert_eq!(merge.container().mounts.len(), 40_001);
    let updates: Vec<_> = (0..MANY)
        .map(|at| nri::ContainerUpdate { container_id: at.to_string(), ..Default::default() })
        .collect();
    Updates::default().add(&mut Owners::default(), "10-a", &updates).unwrap();
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}
