//! The checkpoint of a real container, fitted to a new one, and what is refused. The fixture has the images of a shell
//! with three children that was restored with this `config.json`.

mod archives;
mod layers;
mod runs;

use std::io::Read as _;

use flate2::read::GzDecoder;
use prost::Message;
use serde_json::{Value, json};

use super::{
    config::Config,
    fit::{Handling, Images, Target, handling},
    image::{Image, decoded, merged},
    messages::{
        Core, Credentials, Filter, HostNames, InternetSocket, Inventory, Limit, Limits, Mount,
        Namespaces, Network, OpenFile, Seccomp, Task, Thread, TreeEntry, Watch, Watches,
    },
};

const FILTER: &[u8] = b"the filter of the new container.";

fn fixture() -> (Images, Value) {
    let bytes = include_bytes!("../../../tests/fixtures/criu/counter.tar.gz");
    let mut images = Images::default();
    for entry in tar::Archive::new(GzDecoder::new(&bytes[..])).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if handling(&name) == Some(Handling::Read) {
            images.0.insert(name, bytes);
        }
    }
    let config = include_str!("../../../tests/fixtures/criu/config.json");
    (images, serde_json::from_str(config).unwrap())
}

fn fit(images: &mut Images, config: &Value) -> Result<(), String> {
    fit_with(images, config, Some(FILTER))
}

fn fit_with(images: &mut Images, config: &Value, filter: Option<&[u8]>) -> Result<(), String> {
    let config: Config = serde_json::from_value(config.clone()).unwrap();
    let paths = ["/proc/acpi", "/proc/keys", "/proc/bus", "/proc/sys", "/sys/firmware"];
    images.fit(&Target {
        config: &config,
        limits: &[1 << 20; 16],
        filter,
        exists: &|path| paths.contains(&path),
    })
}

fn entry<M: Message + Default>(images: &Images, name: &str) -> M {
    decoded(&Image::read(&images.0[name]).unwrap().entries[0]).unwrap()
}

/// Changes every entry of an image.
fn change(images: &mut Images, name: &str, change: &dyn Fn(&[u8]) -> Vec<u8>) {
    let mut image = Image::read(&images.0[name]).unwrap();
    for entry in &mut image.entries {
        *entry = change(entry);
    }
    images.0.insert(name.to_owned(), image.bytes());
}

fn change_thread(images: &mut Images, of: &Thread) {
    change_thread_of(images, 7, of);
}

fn change_thread_of(images: &mut Images, id: u32, of: &Thread) {
    change(images, &format!("core-{id}.img"), &|entry| {
        let mut core: Core = decoded(entry).unwrap();
        core.thread = core.thread.map(|thread| merged(&thread, of).unwrap());
        merged(entry, &core).unwrap()
    });
}

fn credentials(images: &Images) -> Credentials {
    let core: Core = entry(images, "core-7.img");
    decoded::<Thread>(&core.thread.unwrap()).unwrap().credentials.unwrap()
}

#[test]
fn limits_filter_host_name_and_cgroups_become_those_of_the_new_container() {
    let (mut images, mut config) = fixture();
    config["process"]["oomScoreAdj"] = json!(900);
    config["process"]["rlimits"] = json!([{ "type": "RLIMIT_NOFILE", "hard": 512, "soft": 100 }]);
    let before = images.clone();
    fit(&mut images, &config).unwrap();
    for (name, bytes) in &before.0 {
        let is_changed =
            ["core-", "inventory", "seccomp", "utsns-"].iter().any(|it| name.starts_with(it));
        assert_eq!(images.0[name] != *bytes, is_changed, "{name}");
    }
    assert_eq!(entry::<HostNames>(&images, "utsns-12.img").host, "pod-two");
    assert_eq!(entry::<Inventory>(&images, "inventory.img").cgroups, Some(1));
    let filters = entry::<Seccomp>(&images, "seccomp.img").filters;
    assert_eq!(filters.len(), 6);
    let own = Filter { program: FILTER.to_vec(), previous: None, flags: None };
    assert_eq!(filters[..2], [own.clone(), Filter { flags: Some(1), ..own }]);
    for name in before.0.keys().filter(|name| name.starts_with("core-")) {
        let core: Core = entry(&images, name);
        let task: Task = decoded(&core.task.unwrap()).unwrap();
        let limits = task.limits.unwrap().all;
        assert_eq!((task.oom_score, limits.len()), (Some(900), 16));
        assert_eq!(limits[7], Limit { soft: 512, hard: 512 });
        assert!(limits.iter().all(|limit| limit.soft <= limit.hard && limit.hard <= 1 << 20));
        let thread: Thread = decoded(&core.thread.unwrap()).unwrap();
        assert_eq!((thread.cgroups, thread.seccomp_mode), (Some(1), Some(2)));
        let filter = &filters[thread.seccomp_filter.unwrap() as usize];
        assert_eq!(filter.previous, Some(1), "the own filter comes first");
    }
    // Also limits that the checkpoint has not.
    for count in [0, 3] {
        let (mut images, config) = fixture();
        change(&mut images, "core-7.img", &|entry| {
            let mut core: Core = decoded(entry).unwrap();
            let all = vec![Limit { soft: 5, hard: 6 }; count];
            let few = Task { limits: Some(Limits { all }), ..Task::default() };
            core.task = core.task.map(|task| merged(&task, &few).unwrap());
            merged(entry, &core).unwrap()
        });
        fit(&mut images, &config).unwrap();
        let core: Core = entry(&images, "core-7.img");
        let limits = decoded::<Task>(&core.task.unwrap()).unwrap().limits.unwrap().all;
        assert_eq!((limits.len(), limits[15].hard, limits[15].soft), (16, 1 << 20, 1 << 20));
        assert_eq!(limits[0].soft, if count == 0 { 1 << 20 } else { 5 });
    }
    // A private cgroup namespace: CRIU enters the cgroup that the runtime names.
    let (mut images, mut config) = fixture();
    config["linux"]["namespaces"].as_array_mut().unwrap().push(json!({ "type": "cgroup" }));
    fit(&mut images, &config).unwrap();
    assert!(images.0.contains_key("cgroup.img"));
}

#[test]
fn threads_get_the_filter_with_and_without_filters_of_their_own() {
    let chains = |filters: &[(Option<u32>, &[u8])]| {
        let filters = filters.iter().map(|(previous, program)| Filter {
            program: program.to_vec(),
            previous: *previous,
            flags: None,
        });
        super::seccomp::Chains::new(Seccomp { filters: filters.collect() }, FILTER)
    };
    let thread = |filter: Option<u32>| Thread {
        seccomp_mode: Some(if filter.is_some() { 2 } else { 0 }),
        seccomp_filter: filter,
        ..Thread::default()
    };
    let put = |mut chains: super::seccomp::Chains, threads: &[Option<u32>]| {
        let mut threads = (5..).zip(threads).map(|(id, filter)| (id, thread(*filter))).collect();
        chains.put_below(5, &mut threads)?;
        let filters: Vec<_> = threads.values().map(|thread| thread.seccomp_filter).collect();
        let previous =
            chains.filters().filters.iter().skip(2).map(|it| it.previous).collect::<Vec<_>>();
        Ok::<_, String>((filters, previous))
    };
    // CRIU gives the filters of the first thread to the others.
    assert_eq!(put(chains(&[]), &[None, None]).unwrap(), (vec![Some(1), None], vec![]));
    let one: &[(Option<u32>, &[u8])] = &[(None, b"a"), (Some(0), b"b")];
    assert_eq!(
        put(chains(one), &[Some(1), None]).unwrap(),
        (vec![Some(3), None], vec![Some(1), Some(2)])
    );
    // Also below a filter that no thread names.
    let unused: &[(Option<u32>, &[u8])] = &[(None, b"a"), (None, b"b")];
    assert_eq!(put(chains(unused), &[Some(1)]).unwrap(), (vec![Some(3)], vec![Some(0), Some(1)]));
    // A thread with other filters.
    assert_eq!(
        put(chains(one), &[None, Some(1), None]).unwrap(),
        (vec![Some(0), Some(3), Some(0)], vec![Some(0), Some(2)])
    );
    for wrong in
        [&[(Some(0), &b"a"[..])][..], &[(Some(1), b"a"), (Some(0), b"b")], &[(Some(9), b"a")]]
    {
        put(chains(wrong), &[Some(0)]).unwrap_err();
    }
    put(chains(one), &[Some(7)]).unwrap_err();
}

#[test]
fn more_rights_than_those_of_the_new_container_are_refused() {
    let word = |bit: u32| vec![1_u32 << bit, 0];
    type Change = Box<dyn Fn(&mut Credentials)>;
    let cases: [(&str, Value, Change); 12] = [
        ("user 7, not of user 0", json!(["CAP_SETGID"]), Box::new(|it| it.saved_uid = 7)),
        ("group 7", json!(["CAP_SETUID"]), Box::new(|it| it.file_gid = 7)),
        ("group 9", json!([]), Box::new(|it| it.groups = vec![0, 9])),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.effective = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.permitted = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.bounding = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.inheritable = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.ambient = word(21))),
        ("CAP_CHOWN", json!([]), Box::new(|_| {})),
        ("an unknown one", json!(null), Box::new(|it| it.permitted = vec![0, 1 << 31])),
        (
            "CAP_SETPCAP",
            json!(["CAP_CHOWN"]),
            Box::new(|it| {
                it.secure_bits = 1;
                for set in [&mut it.permitted, &mut it.effective, &mut it.bounding] {
                    set.clear();
                }
            }),
        ),
        ("AppArmor", json!(null), Box::new(|it| it.apparmor_namespaces = Some(vec![1]))),
    ];
    for (reason, bounding, mutate) in cases {
        let (mut images, mut config) = fixture();
        let mut has = credentials(&images);
        if !bounding.is_null() {
            config["process"]["capabilities"]["bounding"] = bounding;
            if reason != "CAP_CHOWN" {
                for name in images
                    .0
                    .keys()
                    .filter(|name| name.starts_with("core-"))
                    .cloned()
                    .collect::<Vec<_>>()
                {
                    change(&mut images, &name, &|entry| {
                        let mut core: Core = decoded(entry).unwrap();
                        let credentials = Some(Credentials {
                            permitted: vec![],
                            effective: vec![],
                            bounding: vec![],
                            ..has.clone()
                        });
                        let none = Thread { credentials, ..Thread::default() };
                        core.thread = core.thread.map(|thread| merged(&thread, &none).unwrap());
                        merged(entry, &core).unwrap()
                    });
                }
                has = credentials(&images);
            }
        }
        mutate(&mut has);
        change_thread(&mut images, &Thread { credentials: Some(has), ..Thread::default() });
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
}

#[test]
fn priorities_and_strict_seccomp_are_refused() {
    for (thread, reason) in [
        (Thread { nice: Some(-1), ..Thread::default() }, "CAP_SYS_NICE"),
        (Thread { policy: Some(1), ..Thread::default() }, "CAP_SYS_NICE"),
    ] {
        let (mut images, config) = fixture();
        change_thread(&mut images, &thread);
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    let (mut images, config) = fixture();
    change_thread(&mut images, &Thread { seccomp_mode: Some(1), ..Thread::default() });
    assert!(fit(&mut images.clone(), &config).unwrap_err().contains("strict mode of seccomp"));
    fit_with(&mut images, &config, None).unwrap();
    // Its image is that of another process, whose thread has no filter.
    let second = TreeEntry { pid: 7, threads: vec![7, 29] };
    change(&mut images, "pstree.img", &|entry| {
        let entry_of = decoded::<TreeEntry>(entry).unwrap();
        if entry_of.pid == 7 { merged(entry, &second).unwrap() } else { entry.to_vec() }
    });
    let refused = fit_with(&mut images, &config, None).unwrap_err();
    assert!(refused.contains("strict mode of seccomp"), "{refused}");
    let (mut images, mut config) = fixture();
    config["process"]["noNewPrivileges"] = json!(true);
    assert!(fit(&mut images, &config).unwrap_err().contains("no_new_privs"));
}

/// CRIU 4.2 writes memory that it has not set as their numbers.
#[test]
fn threads_of_a_process_that_has_ended_are_not_read() {
    for (state, is_read) in [(1, true), (2, false), (3, true)] {
        let (mut images, config) = fixture();
        let other = TreeEntry { pid: 8, threads: vec![4_031_690_960] };
        change(&mut images, "pstree.img", &|entry| {
            let entry_of = decoded::<TreeEntry>(entry).unwrap();
            if entry_of.pid == 8 { merged(entry, &other).unwrap() } else { entry.to_vec() }
        });
        change(&mut images, "core-8.img", &|entry| {
            let mut core: Core = decoded(entry).unwrap();
            let state =
                Task { state: Some(state), limits: Some(Limits::default()), ..Task::default() };
            core.task = core.task.map(|task| merged(&task, &state).unwrap());
            merged(entry, &core).unwrap()
        });
        let fits = fit(&mut images, &config);
        let refused = fits.err().is_some_and(|it| it.contains("has no core-4031690960.img"));
        assert_eq!(refused, is_read, "{state}");
    }
}

#[test]
fn a_confined_container_needs_processes_with_a_label() {
    // A new profile or label, which CRIU only gives to what had one.
    for (key, value, is_confined) in [
        ("apparmorProfile", "docker-default", true),
        ("selinuxLabel", "system_u:system_r:container_t:s0", true),
        ("apparmorProfile", "unconfined", false),
    ] {
        for label in [None, Some(""), Some("docker-default")] {
            let (mut images, mut config) = fixture();
            config["process"][key] = json!(value);
            for id in [1, 7, 8, 29] {
                // One thread without a label is enough.
                let label = if id == 7 { label } else { Some("docker-default") };
                let label = label.map(str::to_owned);
                let has = Credentials { label, ..credentials(&images) };
                let labelled = Thread { credentials: Some(has), ..Thread::default() };
                change_thread_of(&mut images, id, &labelled);
            }
            match fit(&mut images, &config) {
                Err(refused) => {
                    assert!(refused.contains("without an AppArmor profile"), "{refused}");
                }
                Ok(()) => assert!(!is_confined || label == Some("docker-default"), "{label:?}"),
            }
        }
    }
}

#[test]
fn another_user_without_capabilities_is_refused() {
    // Another user without capabilities.
    let (mut images, mut config) = fixture();
    config["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
    assert!(fit(&mut images, &config).unwrap_err().contains("not of user 1000"));
}

#[test]
fn other_mounts_than_those_of_the_new_container_are_refused() {
    type Change = Box<dyn Fn(&mut Mount)>;
    let at = |path: &'static str, change: Change| -> Change {
        Box::new(move |mount| {
            if mount.path == path {
                change(mount);
            }
        })
    };
    let cases: [(&str, Change); 21] = [
        ("leaves the container", at("/data", Box::new(|it| it.path = "/data/../../x".to_owned()))),
        (
            "leaves the container",
            at("/proc/sys", Box::new(|it| it.root = "/sys/../../..".to_owned())),
        ),
        ("at /proc/sys has /fs", at("/proc/sys", Box::new(|it| it.root = "/fs".to_owned()))),
        (
            "at /sys/fs/cgroup/pids",
            at(
                "/sys/fs/cgroup/pids",
                Box::new(|it| {
                    it.outside = None;
                    it.root = "/".to_owned();
                }),
            ),
        ),
        ("two mounts at /data", at("/etc/hosts", Box::new(|it| it.path = "/data/".to_owned()))),
        ("is not below", at("/proc/keys", Box::new(|it| it.parent = 175))),
        ("unknown kind", at("/data", Box::new(|it| it.is_outside = Some(true)))),
        ("unknown kind", at("/proc", Box::new(|it| it.by_plugin = Some(true)))),
        ("a mount at /other", at("/data", Box::new(|it| it.path = "/other".to_owned()))),
        ("its mount at /data has", at("/data", Box::new(|it| it.outside = None))),
        (
            "a mount at /data",
            at("/data", Box::new(|it| it.outside = Some("/etc/hosts".to_owned()))),
        ),
        ("a mount at /proc", at("/proc", Box::new(|it| it.kind = 17))),
        ("/proc lacks options", at("/proc", Box::new(|it| it.flags = 0))),
        ("/proc/sys lacks options", at("/proc/sys", Box::new(|it| it.flags = 14))),
        ("/sys/firmware lacks options", at("/sys/firmware", Box::new(|it| it.flags = 0))),
        ("/data has no flags", at("/data", Box::new(|it| it.file_system_flags = None))),
        ("has the number of another", at("/data", Box::new(|it| it.id = 865))),
        ("/dev is that at /dev/shm", at("/dev", Box::new(|it| it.device = 63))),
        ("/dev is that at /", at("/dev", Box::new(|it| it.device = 193))),
        ("/proc/sys is that at /dev", at("/dev", Box::new(|it| it.device = 197))),
        ("propagates", at("/data", Box::new(|it| it.shared = Some(3)))),
    ];
    for (reason, mutate) in cases {
        let (mut images, config) = fixture();
        change(&mut images, "mountpoints-13.img", &|entry| {
            let mut mount: Mount = decoded(entry).unwrap();
            mutate(&mut mount);
            // A field that is none now is removed.
            let mut without = merged(entry, &mount).unwrap();
            if mount.outside.is_none() || mount.file_system_flags.is_none() {
                without = mount.encode_to_vec();
            }
            without
        });
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
}

#[test]
fn mounts_of_the_new_container_are_needed_as_they_are() {
    let (mut images, mut config) = fixture();
    config["mounts"][6]["options"] = json!(["rbind", "rro"]);
    let refused = fit(&mut images, &config).unwrap_err();
    assert!(refused.contains("read-only mount cannot be restored: /data"), "{refused}");
    for (change, reason) in [
        (json!({ "root": { "path": "r", "readonly": true } }), "its mount at / lacks"),
        (
            json!({ "linux": { "maskedPaths": ["/proc/acpi", "/proc/keys", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"], "namespaces": [
            { "type": "mount" }, { "type": "network" }, { "type": "uts" }, { "type": "pid" }, { "type": "ipc" }] } }),
            "a mount at /proc/timer_list",
        ),
    ] {
        let (mut images, mut config) = fixture();
        for (key, value) in change.as_object().unwrap() {
            config[key] = value.clone();
        }
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
    let (mut images, mut config) = fixture();
    let mount = json!({ "destination": "/more", "type": "bind", "options": ["rbind"] });
    config["mounts"].as_array_mut().unwrap().push(mount);
    assert!(fit(&mut images, &config).unwrap_err().contains("no mount at /more"));
    let (mut images, mut config) = fixture();
    config["linux"]["maskedPaths"].as_array_mut().unwrap().push(json!("/proc/kcore"));
    fit(&mut images, &config).unwrap();
    config["linux"]["readonlyPaths"].as_array_mut().unwrap().push(json!("/proc/keys"));
    fit(&mut images, &config).unwrap();
}

#[test]
fn namespaces_and_files_of_the_node_are_refused() {
    let all = |images: &mut Images, of: Namespaces| {
        for name in
            images.0.keys().filter(|name| name.starts_with("ids-")).cloned().collect::<Vec<_>>()
        {
            change(images, &name, &|entry| merged(entry, &of).unwrap());
        }
    };
    for (kind, of) in [
        ("pid", Namespaces { pid: Some(1), ..Namespaces::default() }),
        ("network", Namespaces { network: Some(2), ..Namespaces::default() }),
        ("ipc", Namespaces { ipc: Some(3), ..Namespaces::default() }),
        ("uts", Namespaces { uts: Some(4), ..Namespaces::default() }),
        ("mount", Namespaces { mount: Some(6), ..Namespaces::default() }),
    ] {
        let (mut images, mut config) = fixture();
        all(&mut images, of);
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(&format!("the {kind} namespace of its node")), "{refused}");
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.retain(|namespace| namespace["type"] != kind);
        let refused = fit(&mut fixture().0, &config).unwrap_err();
        assert!(
            refused.contains(&format!("its {kind} namespace is not that of the node")),
            "{refused}"
        );
    }
    // CRIU takes a missing number for 0.
    let none = Namespaces { network: Some(0), ..Namespaces::default() };
    for host in [None, Some(Namespaces::default()), Some(none.clone())] {
        let (mut images, config) = fixture();
        all(&mut images, none.clone());
        if let Some(host) = host {
            let inventory = Inventory { host: Some(host), cgroups: None };
            change(&mut images, "inventory.img", &|entry| merged(entry, &inventory).unwrap());
        }
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains("the network namespace of its node"), "{refused}");
    }
    let (mut images, config) = fixture();
    change(&mut images, "ids-8.img", &|entry| {
        merged(entry, &Namespaces { mount: Some(99), ..Namespaces::default() }).unwrap()
    });
    assert!(fit(&mut images, &config).unwrap_err().contains("different namespaces"));
    let (mut images, config) = fixture();
    let other = Network { outside: Some("other".to_owned()) };
    change(&mut images, "netns-10.img", &|entry| merged(entry, &other).unwrap());
    assert!(fit(&mut images, &config).unwrap_err().contains("network"));
}

#[test]
fn open_files_of_the_node_are_refused() {
    let raw = Some(InternetSocket { kind: 3 });
    let watches = Some(Watches { all: vec![Watch::default()] });
    for (file, reason) in [
        (OpenFile { kind: 4, internet_socket: raw, watches: None }, "CAP_NET_RAW"),
        (OpenFile { kind: 10, ..OpenFile::default() }, "CAP_NET_RAW"),
        (OpenFile { kind: 14, ..OpenFile::default() }, "type 14"),
        (OpenFile { kind: 8, internet_socket: None, watches }, "inotify"),
    ] {
        let (mut images, mut config) = fixture();
        config["process"]["capabilities"]["bounding"] = json!([]);
        change(&mut images, "files.img", &|entry| merged(entry, &file).unwrap());
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
    // What belongs to another type of file does not hide the type.
    let watches = Some(Watches { all: vec![Watch::default()] });
    for (file, reason) in [
        (OpenFile { kind: 16, internet_socket: raw, watches: None }, Some("type 16")),
        (OpenFile { kind: 8, internet_socket: raw, watches }, Some("inotify")),
        (OpenFile { kind: 4, internet_socket: raw, watches: None }, None),
        (OpenFile { kind: 10, ..OpenFile::default() }, None),
    ] {
        let (mut images, config) = fixture();
        change(&mut images, "files.img", &|entry| merged(entry, &file).unwrap());
        let fitted = fit(&mut images, &config);
        let is_expected = |refused: &String| reason.is_some_and(|it| refused.contains(it));
        assert_eq!(fitted.is_err(), reason.is_some(), "{reason:?}");
        assert!(fitted.err().iter().all(is_expected), "{reason:?}");
    }
    for (names, reason) in
        [("[1]", "damaged"), ("", "damaged"), (r#"["","","","pipe:[1]"]"#, "three")]
    {
        let (mut images, config) = fixture();
        images.0.insert("descriptors.json".to_owned(), names.into());
        assert!(fit(&mut images, &config).unwrap_err().contains(reason));
    }
}

#[test]
fn unknown_and_damaged_images_are_refused() {
    for (name, wanted) in [
        ("core-1.img", Some(Handling::Read)),
        ("descriptors.json", Some(Handling::Read)),
        ("tmpfs-dev-67.tar.gz.img", Some(Handling::Read)),
        ("ghost-file-1f.img", Some(Handling::Kept)),
        ("pagemap-shmem-12.img", Some(Handling::Kept)),
        ("cgroup.img", Some(Handling::Removed)),
        ("apparmor.img", Some(Handling::Removed)),
        ("iptables-10.img", None),
        ("userns-10.img", None),
        ("bpfmap-file.img", None),
        ("core-x.img", None),
        ("core", None),
        ("", None),
    ] {
        assert_eq!(handling(name), wanted, "{name}");
    }
    let names: Vec<String> = fixture().0.0.keys().cloned().collect();
    for name in names.iter().filter(|name| name.ends_with(".img") && !name.starts_with("tmpfs")) {
        let (mut images, config) = fixture();
        images.0.remove(name);
        if name != "seccomp.img" && name != "utsns-12.img" && !name.starts_with("ids-") {
            fit(&mut images, &config).expect_err(name);
        }
        let (mut images, config) = fixture();
        images.0.get_mut(name).unwrap().pop();
        fit(&mut images, &config).expect_err(name);
    }
    // The devices of a tmpfs.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Block);
    header.set_device_major(8).unwrap();
    header.set_device_minor(0).unwrap();
    header.set_size(0);
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
    archive.append_data(&mut header, "sda", std::io::empty()).unwrap();
    let bytes = archive.into_inner().unwrap().finish().unwrap();
    let (mut images, mut config) = fixture();
    images.0.insert("tmpfs-dev-67.tar.gz.img".to_owned(), bytes);
    assert!(fit(&mut images, &config).unwrap_err().contains("has the device sda"));
    config["linux"]["devices"] = json!([{ "path": "/dev/sda", "major": 8, "minor": 0 }]);
    fit(&mut images, &config).unwrap();
    let limits = Some(Limits::default());
    for old in [
        Task { limits: limits.clone(), old_seccomp_mode: Some(0), ..Task::default() },
        Task { limits: limits.clone(), old_seccomp_filter: Some(0), ..Task::default() },
    ] {
        let (mut images, config) = fixture();
        change(&mut images, "core-8.img", &|entry| {
            let mut core: Core = decoded(entry).unwrap();
            core.task = core.task.map(|task| merged(&task, &old).unwrap());
            merged(entry, &core).unwrap()
        });
        assert!(fit(&mut images, &config).unwrap_err().contains("older than"));
    }
}
