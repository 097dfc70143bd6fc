//! Tests that fit the container checkpoint of a real container to a new container, and tests of refused container
//! checkpoints. The fixture has CRIU's images of a shell with three children, which can be restored with the fixture's
//! `config.json`.

mod archives;
mod files;
mod layers;
mod mounts;
mod paths;
mod rights;
mod runs;

use std::io::Read as _;

use flate2::read::GzDecoder;
use prost::Message;
use serde_json::{Value, json};

use super::{
    config::Config,
    fit::{Handling, Target, handling},
    image::{Image, decoded, merged},
    images::Images,
    messages::{
        Core, Credentials, Filter, HostNames, Inventory, Limit, Limits, OpenFile, Seccomp, Task,
        Thread,
    },
    paths::Located,
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
            images.contents.insert(name, bytes);
        }
    }
    let config = include_str!("../../../tests/fixtures/criu/config.json");
    (images, serde_json::from_str(config).unwrap())
}

fn fit(images: &mut Images, config: &Value) -> Result<Vec<Located>, String> {
    fit_with(images, config, Some(FILTER))
}

fn fit_with(
    images: &mut Images,
    config: &Value,
    filter: Option<&[u8]>,
) -> Result<Vec<Located>, String> {
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
    decoded(&Image::read(&images.contents[name]).unwrap().entries[0]).unwrap()
}

/// Applies `change` to every entry of one of CRIU's images.
fn change(images: &mut Images, name: &str, change: &dyn Fn(&[u8]) -> Vec<u8>) {
    let mut image = Image::read(&images.contents[name]).unwrap();
    for entry in &mut image.entries {
        *entry = change(entry);
    }
    images.contents.insert(name.to_owned(), image.bytes());
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

/// Changes the entry of the open file with this number to have the fields of `file`.
fn change_file(images: &mut Images, id: u32, file: &OpenFile) {
    let file = OpenFile { id, ..file.clone() };
    change(images, "files.img", &|entry| {
        let is_it = decoded::<OpenFile>(entry).unwrap().id == id;
        if is_it { merged(entry, &file).unwrap() } else { entry.to_vec() }
    });
}

/// The fixture with processes and a container that have no capabilities.
fn without_capabilities() -> (Images, Value) {
    let (mut images, mut config) = fixture();
    config["process"]["capabilities"]["bounding"] = json!([]);
    for id in [1, 7, 8, 29] {
        let mut has = credentials(&images);
        for set in [&mut has.permitted, &mut has.effective, &mut has.bounding, &mut has.inheritable]
        {
            set.clear();
        }
        change_thread_of(&mut images, id, &Thread { credentials: Some(has), ..Thread::default() });
    }
    (images, config)
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
    for (name, bytes) in &before.contents {
        let is_changed = ["core-", "inventory", "mountpoints-", "seccomp", "utsns-"]
            .iter()
            .any(|it| name.starts_with(it));
        assert_eq!(images.contents[name] != *bytes, is_changed, "{name}");
    }
    assert_eq!(entry::<HostNames>(&images, "utsns-12.img").host, "pod-two");
    assert_eq!(entry::<Inventory>(&images, "inventory.img").cgroups, Some(1));
    let filters = entry::<Seccomp>(&images, "seccomp.img").filters;
    assert_eq!(filters.len(), 6);
    let own = Filter { program: FILTER.to_vec(), previous: None, flags: None };
    assert_eq!(filters[..2], [own.clone(), Filter { flags: Some(1), ..own }]);
    for name in before.contents.keys().filter(|name| name.starts_with("core-")) {
        let core: Core = entry(&images, name);
        let task: Task = decoded(&core.task.unwrap()).unwrap();
        let limits = task.limits.unwrap().all;
        assert_eq!((task.oom_score, limits.len()), (Some(900), 16));
        assert_eq!(task.login, Some(u32::MAX));
        assert_eq!(limits[7], Limit { soft: 512, hard: 512 });
        assert!(limits.iter().all(|limit| limit.soft <= limit.hard && limit.hard <= 1 << 20));
        let thread: Thread = decoded(&core.thread.unwrap()).unwrap();
        assert_eq!((thread.cgroups, thread.seccomp_mode), (Some(1), Some(2)));
        let filter = &filters[thread.seccomp_filter.unwrap() as usize];
        assert_eq!(filter.previous, Some(1), "the own filter comes first");
    }
    // The resource limits are also set if the container checkpoint has none or only some of them.
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
    // With a private cgroup namespace, CRIU enters the cgroup that the lower runtime names.
    let (mut images, mut config) = fixture();
    config["linux"]["namespaces"].as_array_mut().unwrap().push(json!({ "type": "cgroup" }));
    fit(&mut images, &config).unwrap();
    assert!(images.contents.contains_key("cgroup.img"));
}

#[test]
fn unknown_and_damaged_images_are_refused() {
    for (name, wanted) in [
        ("core-1.img", Some(Handling::Read)),
        ("descriptors.json", Some(Handling::Read)),
        ("tmpfs-dev-67.tar.gz.img", Some(Handling::Read)),
        ("ghost-file-1f.img", Some(Handling::Read)),
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
    let names: Vec<String> = fixture().0.contents.keys().cloned().collect();
    for name in names.iter().filter(|name| name.ends_with(".img") && !name.starts_with("tmpfs")) {
        let (mut images, config) = fixture();
        images.contents.remove(name);
        let is_optional =
            ["seccomp", "utsns-", "ids-", "mm-"].iter().any(|it| name.starts_with(it));
        if !is_optional {
            fit(&mut images, &config).expect_err(name);
        }
        let (mut images, config) = fixture();
        images.contents.get_mut(name).unwrap().pop();
        fit(&mut images, &config).expect_err(name);
    }
    // An archive of a tmpfs that contains a block device.
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
    images.contents.insert("tmpfs-dev-67.tar.gz.img".to_owned(), bytes);
    assert!(fit(&mut images, &config).unwrap_err().contains("has the device sda"));
    let device = |kind: &str| json!([{ "type": kind, "path": "/dev/a", "major": 8, "minor": 0 }]);
    config["linux"]["devices"] = device("c");
    assert!(fit(&mut images, &config).unwrap_err().contains("has the device sda"));
    config["linux"]["devices"] = device("b");
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
