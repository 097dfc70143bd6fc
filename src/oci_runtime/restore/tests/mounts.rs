//! Tests of the checks of mounts and hooks.

use prost::Message as _;
use serde_json::json;

use super::{
    super::{
        image::{Image, decoded, merged},
        messages::{FileSystem, Mount},
    },
    change, fit, fixture,
};

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
    let cases: [(&str, Change); 31] = [
        (
            "has .. in its path or root",
            at("/data", Box::new(|it| it.path = "/data/../../x".to_owned())),
        ),
        (
            "has .. in its path or root",
            at("/proc/sys", Box::new(|it| it.root = "/sys/../../..".to_owned())),
        ),
        ("/proc/sys is only a part", at("/proc/sys", Box::new(|it| it.root = "/fs".to_owned()))),
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
        ("has the wrong parent", at("/proc/keys", Box::new(|it| it.parent = 175))),
        ("unsupported mount", at("/data", Box::new(|it| it.is_outside = Some(true)))),
        ("unsupported mount", at("/proc", Box::new(|it| it.by_plugin = Some(true)))),
        ("mount at /other", at("/data", Box::new(|it| it.path = "/other".to_owned()))),
        ("mount at /data is only a part", at("/data", Box::new(|it| it.outside = None))),
        ("mount at /data", at("/data", Box::new(|it| it.outside = Some("/etc/hosts".to_owned())))),
        ("mount at /proc", at("/proc", Box::new(|it| it.kind = 17))),
        ("/proc lacks options", at("/proc", Box::new(|it| it.flags = 0))),
        ("/proc/sys lacks options", at("/proc/sys", Box::new(|it| it.flags = 14))),
        ("/sys/firmware lacks options", at("/sys/firmware", Box::new(|it| it.flags = 0))),
        ("/data has no file system flags", at("/data", Box::new(|it| it.file_system_flags = None))),
        ("has the same id as", at("/data", Box::new(|it| it.id = 865))),
        ("/dev and /dev/shm of the checkpoint share", at("/dev", Box::new(|it| it.device = 63))),
        ("/dev and / of the checkpoint share", at("/dev", Box::new(|it| it.device = 193))),
        ("/proc/sys and /dev of the checkpoint share", at("/dev", Box::new(|it| it.device = 197))),
        ("has a propagation", at("/data", Box::new(|it| it.shared = Some(3)))),
        ("has a propagation", at("/data", Box::new(|it| it.master = Some(3)))),
        ("has a propagation", at("/", Box::new(|it| it.shared = Some(3)))),
        ("a deleted file", at("/data", Box::new(|it| it.is_deleted = Some(true)))),
        ("/dev is only a part", at("/dev", Box::new(|it| it.root = "/sub".to_owned()))),
        ("mounts /sys/fs/cgroup and", at("/sys/fs/cgroup", Box::new(|it| it.device = 198))),
        ("a NUL", at("/data", Box::new(|it| it.path = "/data\0x".to_owned()))),
        // The flags are MS_REC, MS_BIND and MS_MOVE.
        ("/data has flags", at("/data", Box::new(|it| it.flags |= 1 << 14))),
        ("/dev has flags", at("/dev", Box::new(|it| it.file_system_flags = Some(1 << 12)))),
        ("/dev has flags", at("/dev", Box::new(|it| it.file_system_flags = Some(1 << 13)))),
        // A mount of cgroup v2, in a container without a cgroup namespace.
        (
            "mount at /sys/fs/cgroup",
            at("/sys/fs/cgroup", Box::new(|it| (it.kind, it.options) = (23, Some(String::new())))),
        ),
    ];
    for (reason, mutate) in cases {
        let (mut images, config) = fixture();
        change(&mut images, "mountpoints-13.img", &|entry| {
            let mut mount: Mount = decoded(entry).unwrap();
            mutate(&mut mount);
            // `merged` cannot remove a field, so an entry in which a field is now `None` is encoded as a whole.
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
fn sources_and_options_become_those_of_the_new_container() {
    let (mut images, mut config) = fixture();
    config["linux"]["mountLabel"] = json!("a:b");
    let own = FileSystem { source: "/".to_owned(), options: "release_agent=/x".to_owned() };
    change(&mut images, "mountpoints-13.img", &|entry| {
        let is_memory = decoded::<Mount>(entry).unwrap().kind == 5;
        if is_memory { merged(entry, &own).unwrap() } else { entry.to_vec() }
    });
    fit(&mut images, &config).unwrap();
    let entries = Image::read(&images.contents["mountpoints-13.img"]).unwrap().entries;
    let at = |path: &str| {
        let entry = entries.iter().find(|it| decoded::<Mount>(it).unwrap().path == path);
        let FileSystem { source, options } = decoded(entry.unwrap()).unwrap();
        (source, options)
    };
    for (path, source, options) in [
        ("/dev", "tmpfs", "mode=755,size=65536k,context=\"a:b\""),
        ("/proc/acpi", "tmpfs", "context=\"a:b\""),
        ("/sys/fs/cgroup", "tmpfs", "mode=755,context=\"a:b\""),
        ("/proc", "proc", ""),
        ("/proc/sys", "proc", ""),
        ("/dev/mqueue", "mqueue", ""),
    ] {
        assert_eq!(at(path), (source.to_owned(), options.to_owned()), "{path}");
    }
    let (mut images, mut config) = fixture();
    config["linux"]["namespaces"].as_array_mut().unwrap().push(json!({ "type": "cgroup" }));
    for (options, is_refused) in
        [("nsdelegate,memory_recursiveprot", false), ("release_agent=/x", true)]
    {
        change(&mut images, "mountpoints-13.img", &|entry| {
            let mut mount: Mount = decoded(entry).unwrap();
            if mount.path == "/sys/fs/cgroup" {
                mount.kind = 23;
                mount.flags |= 1;
                mount.options = Some(options.to_owned());
            }
            merged(entry, &mount).unwrap()
        });
        assert_eq!(fit(&mut images.clone(), &config).is_err(), is_refused, "{options}");
    }
}

#[test]
fn mounts_of_the_new_container_are_needed_as_they_are() {
    let (mut images, mut config) = fixture();
    config["mounts"][6]["options"] = json!(["rbind", "rro"]);
    let refused = fit(&mut images, &config).unwrap_err();
    assert!(refused.contains("read-only mount cannot be restored: /data"), "{refused}");
    for (change, reason) in [
        (json!({ "root": { "path": "r", "readonly": true } }), "mount at / lacks"),
        (
            json!({ "linux": { "maskedPaths": ["/proc/acpi", "/proc/keys", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"], "namespaces": [
            { "type": "mount" }, { "type": "network" }, { "type": "uts" }, { "type": "pid" }, { "type": "ipc" }] } }),
            "mount at /proc/timer_list",
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
    assert!(fit(&mut images, &config).unwrap_err().contains("has a mount at /more"));
    let (mut images, mut config) = fixture();
    config["linux"]["maskedPaths"].as_array_mut().unwrap().push(json!("/proc/kcore"));
    fit(&mut images, &config).unwrap();
    config["linux"]["readonlyPaths"].as_array_mut().unwrap().push(json!("/proc/keys"));
    fit(&mut images, &config).unwrap();
    // The checks of masked and read-only paths also apply at a path for which the container has another mount.
    for (key, path, reason) in [
        ("readonlyPaths", "/", "mount at / lacks"),
        ("readonlyPaths", "/data", "mount at /data lacks"),
        ("maskedPaths", "/data", "no mount like the checkpoint's mount at /data"),
        ("maskedPaths", "/", "no mount like the checkpoint's mount at /"),
    ] {
        let (mut images, mut config) = fixture();
        config["linux"][key].as_array_mut().unwrap().push(json!(path));
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{key} {path}: {refused}");
    }
}

#[test]
fn hooks_that_would_not_run_are_refused() {
    for (kind, is_run) in [
        ("prestart", true),
        ("createRuntime", true),
        ("poststop", true),
        ("createContainer", false),
        ("startContainer", false),
        ("poststart", false),
    ] {
        let (mut images, mut config) = fixture();
        config["hooks"] = json!({ kind: [{ "path": "/bin/hook", "args": ["hook"] }] });
        assert_eq!(fit(&mut images, &config).is_ok(), is_run, "{kind}");
    }
}
