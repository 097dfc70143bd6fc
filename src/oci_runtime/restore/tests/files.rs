//! Tests of the checks of namespaces, open files and sockets.

use prost::Message as _;
use serde_json::{Value, json};

use super::{
    super::{
        image::merged,
        images::Images,
        messages::{
            InternetSocket, Inventory, Namespaces, NetlinkSocket, Network, OpenFile, Owner,
            SocketOptions, Watch, Watches,
        },
    },
    change, change_file, fit, fixture, without_capabilities,
};

#[test]
fn namespaces_and_files_of_the_node_are_refused() {
    let all = |images: &mut Images, of: Namespaces| {
        for name in images.names("ids-") {
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
        assert!(refused.contains(&format!("no {kind} namespace or used its node's")), "{refused}");
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.retain(|namespace| namespace["type"] != kind);
        let refused = fit(&mut fixture().0, &config).unwrap_err();
        assert!(refused.contains(&format!("uses the node's {kind} namespace")), "{refused}");
    }
    // CRIU reads a missing number as 0.
    let none = Namespaces { network: Some(0), ..Namespaces::default() };
    for host in [None, Some(Namespaces::default()), Some(none.clone())] {
        let (mut images, config) = fixture();
        all(&mut images, none.clone());
        if let Some(host) = host {
            let inventory = Inventory { host: Some(host), ..Inventory::default() };
            change(&mut images, "inventory.img", &|entry| merged(entry, &inventory).unwrap());
        }
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains("no network namespace or used its node's"), "{refused}");
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
fn other_versions_of_images_are_refused() {
    let (mut images, config) = fixture();
    let inventory = Inventory { version: Some(1), ..Inventory::default() };
    change(&mut images, "inventory.img", &|entry| merged(entry, &inventory).unwrap());
    assert!(fit(&mut images, &config).unwrap_err().contains("unknown version"));
}

#[test]
fn signals_of_files_stay_in_the_container() {
    let in_namespace = |owner: Owner, namespace: Value| {
        let (mut images, mut config) = without_capabilities();
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.retain(|it| it["type"] != "pid");
        namespaces.push(namespace);
        // An entry for a pipe: field 18 is the message of the pipe, whose field 4 is the owner.
        let owner = owner.encode_to_vec();
        let length = u8::try_from(owner.len()).unwrap();
        let bytes = [&[0x92, 1, length + 2, 0x22, length][..], &owner].concat();
        change(&mut images, "files.img", &|entry| [entry, &bytes].concat());
        fit(&mut images, &config)
    };
    let with = |owner| in_namespace(owner, json!({ "type": "pid" }));
    let own = Owner { uid: 0, effective_uid: 0, pid: 7 };
    with(own).unwrap();
    // In a shared PID namespace, the pid may belong to a process of another container, so the file is refused even
    // for uid 0.
    let shared = json!({ "type": "pid", "path": "/proc/1/ns/pid" });
    assert!(in_namespace(own, shared.clone()).unwrap_err().contains("has F_SETOWN"));
    in_namespace(Owner { pid: 0, ..own }, shared).unwrap();
    for owner in [Owner { uid: 5, ..own }, Owner { effective_uid: 5, ..own }] {
        assert!(with(owner).unwrap_err().contains("has F_SETOWN"));
        with(Owner { pid: 0, ..owner }).unwrap();
    }
}

#[test]
fn open_files_of_the_node_are_refused() {
    let raw = Some(InternetSocket { kind: 3, port: 0, options: None });
    let watches = Some(Watches { all: vec![Watch::default()] });
    for (file, reason) in [
        (OpenFile { kind: 4, internet_socket: raw, ..OpenFile::default() }, "CAP_NET_RAW"),
        (OpenFile { kind: 10, ..OpenFile::default() }, "CAP_NET_RAW"),
        (OpenFile { kind: 14, ..OpenFile::default() }, "type 14"),
        (OpenFile { kind: 8, watches, ..OpenFile::default() }, "inotify"),
    ] {
        let (mut images, mut config) = fixture();
        config["process"]["capabilities"]["bounding"] = json!([]);
        change(&mut images, "files.img", &|entry| merged(entry, &file).unwrap());
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
    // The check uses the type of an entry, even if the entry has fields of another type of file.
    let watches = Some(Watches { all: vec![Watch::default()] });
    for (file, reason) in [
        (OpenFile { kind: 16, internet_socket: raw, ..OpenFile::default() }, Some("type 16")),
        (
            OpenFile { kind: 8, internet_socket: raw, watches, ..OpenFile::default() },
            Some("inotify"),
        ),
        (OpenFile { kind: 4, internet_socket: raw, ..OpenFile::default() }, None),
        (OpenFile { kind: 10, ..OpenFile::default() }, None),
    ] {
        let (mut images, config) = fixture();
        change(&mut images, "files.img", &|entry| merged(entry, &file).unwrap());
        let fitted = fit(&mut images, &config);
        let is_expected = |refused: &String| reason.is_some_and(|it| refused.contains(it));
        assert_eq!(fitted.is_err(), reason.is_some(), "{reason:?}");
        assert!(fitted.err().iter().all(is_expected), "{reason:?}");
    }
    let options = |priority, mark| Some(SocketOptions { priority, mark });
    let internet = |port, options| OpenFile {
        kind: 4,
        internet_socket: Some(InternetSocket { kind: 1, port, options }),
        ..OpenFile::default()
    };
    let netlink = |protocol, groups| OpenFile {
        kind: 13,
        netlink_socket: Some(NetlinkSocket { protocol, groups, options: options(None, Some(0)) }),
        ..OpenFile::default()
    };
    for (file, needed) in [
        (internet(80, None), "CAP_NET_BIND_SERVICE"),
        (internet(8080, options(None, Some(7))), "CAP_NET_ADMIN"),
        (internet(8080, options(Some(7), None)), "CAP_NET_ADMIN"),
        (netlink(9, vec![1]), "CAP_AUDIT_READ"),
        (netlink(6, vec![0, 1]), "CAP_NET_ADMIN"),
        (netlink(0, vec![1]), ""),
        (netlink(6, vec![0]), ""),
        (internet(0, options(Some(6), Some(0))), ""),
        (internet(1024, None), ""),
    ] {
        for (given, port) in [(json!([]), "1024"), (json!([needed]), "1024"), (json!([]), "0")] {
            let (mut images, mut config) = without_capabilities();
            config["process"]["capabilities"]["bounding"] = given.clone();
            config["linux"]["sysctl"] = json!({ "net.ipv4.ip_unprivileged_port_start": port });
            change_file(&mut images, 3, &file);
            let is_free = needed.is_empty() || needed.ends_with("SERVICE") && port == "0";
            match fit(&mut images, &config) {
                Ok(_) => assert!(is_free || given == json!([needed]), "{needed} {given}"),
                Err(refused) => assert!(!is_free && refused.contains(needed), "{refused}"),
            }
        }
    }
    for (names, reason) in
        [("[1]", "damaged"), ("", "damaged"), (r#"["","","","pipe:[1]"]"#, "more than")]
    {
        let (mut images, config) = fixture();
        images.contents.insert("descriptors.json".to_owned(), names.into());
        assert!(fit(&mut images, &config).unwrap_err().contains(reason));
    }
}
